"""Reaching hosts: a manifest's host → a Connection that runs scripts, moves small files, opens streams.

Never prompts, never keeps a secret, never accepts an unknown host key unasked.
"""

from __future__ import annotations

from ..secrets import Secrets
from ..types.deployment import Host
from .base import ByteStream, Completed, Connection
from .starts import Starts

__all__ = ["ByteStream", "Completed", "Connection", "Starts", "connect"]


def connect(host: Host, secrets: Secrets, starts: Starts | None = None) -> Connection:
    """Open the one connection to `host`. Raises ConnectError; SudoError comes with the first script.

    `starts`: shared by those who connect to many hosts at once.
    """
    if host.connection == "local":
        from .local import LocalConnection

        return LocalConnection(host, secrets)
    # Imported where used: paramiko and fabric take longer than `--version` may.
    from .settings import resolve
    from .ssh import open_ssh
    from .ssh_host import SshConnection

    connection, notes = open_ssh(resolve(host.name, host.ssh), starts or Starts())
    return SshConnection(host, secrets, connection, notes)
