"""A real sshd and users of this machine, as the tests of connections have them."""

from tests.transport.conftest import make_user, programs, sshd

__all__ = ["make_user", "programs", "sshd"]
