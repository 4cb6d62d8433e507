"""How root is had: with real users and a real sudo."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cpudeploy.errors import SudoError
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, connect
from cpudeploy.types.deployment import Host, Sudo

from .conftest import Sshd, User

PASSWORD = "pass word'$x\\"
ASKS = "{user} ALL=(ALL) ALL\nDefaults:{user} timestamp_timeout=0"


@pytest.fixture
def asked(sshd: Sshd, make_user: Callable[..., User]) -> Host:
    """A host whose sudo asks for PASSWORD."""
    return sshd.host(make_user(sudo=ASKS, password=PASSWORD).name)


def test_logged_in_as_root_needs_no_sudo(as_root: Connection) -> None:
    assert as_root.root == "root"


def test_the_password_is_given_when_sudo_asks(
    asked: Host, open_connection: Callable[..., Connection]
) -> None:
    connection = open_connection(asked, sudo_password=PASSWORD)
    done = connection.run("id -u; cat", stdin=b"data", deadline_s=30)
    assert (done.stdout, done.stderr) == (b"0\ndata", "")
    assert connection.root == "sudo-password"


def test_a_password_given_to_a_sudo_that_does_not_ask_reaches_no_shell(
    sshd: Sshd, make_user: Callable[..., User], open_connection: Callable[..., Connection]
) -> None:
    user = make_user(sudo="{user} ALL=(ALL) NOPASSWD: ALL")
    connection = open_connection(sshd.host(user.name), sudo_password=PASSWORD)
    done = connection.run("cat; set", deadline_s=30)
    assert PASSWORD not in done.stdout.decode() + done.stderr
    assert connection.root == "sudo"


def test_a_wrong_password_is_an_error_at_once(
    asked: Host, open_connection: Callable[..., Connection]
) -> None:
    connection = open_connection(asked, sudo_password="wrong")
    with pytest.raises(SudoError, match="did not accept the password"):
        connection.run("true", deadline_s=30)


def test_a_password_asked_for_and_not_given_is_an_error(
    asked: Host, open_connection: Callable[..., Connection]
) -> None:
    with pytest.raises(SudoError, match="asks for a password and none is given"):
        open_connection(asked).run("true", deadline_s=30)


def test_what_sudo_says_is_told(
    sshd: Sshd, make_user: Callable[..., User], open_connection: Callable[..., Connection]
) -> None:
    user = make_user(password=PASSWORD)
    connection = open_connection(sshd.host(user.name), sudo_password=PASSWORD)
    with pytest.raises(SudoError, match=r"sudo refused.*sudoers") as caught:
        connection.run("true", deadline_s=30)
    assert PASSWORD not in str(caught.value)


def test_requiretty_is_told(
    sshd: Sshd, make_user: Callable[..., User], open_connection: Callable[..., Connection]
) -> None:
    user = make_user(sudo="{user} ALL=(ALL) NOPASSWD: ALL\nDefaults:{user} requiretty")
    with pytest.raises(SudoError, match=r"sudo refused.*tty"):
        open_connection(sshd.host(user.name)).run("true", deadline_s=30)


def test_without_root_asked_for_sudo_is_not_called(
    sshd: Sshd, make_user: Callable[..., User], open_connection: Callable[..., Connection]
) -> None:
    user = make_user()
    done = open_connection(sshd.host(user.name)).run("id -un", root=False, deadline_s=30)
    assert done.stdout.decode().strip() == user.name


def test_a_manifest_that_rules_sudo_out_is_obeyed(
    sshd: Sshd, make_user: Callable[..., User], tmp_path: object
) -> None:
    user = make_user(sudo="{user} ALL=(ALL) NOPASSWD: ALL")
    host = Host(name="h1", ssh=sshd.host(user.name).ssh, sudo=Sudo(use="none"))
    connection = connect(host, Secrets(sshd.folder))
    try:
        assert connection.root == "none"
        with pytest.raises(SudoError, match="sudo: none"):
            connection.run("touch /root/never", deadline_s=30)
    finally:
        connection.close()
