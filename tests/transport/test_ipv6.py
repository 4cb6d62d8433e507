"""Hosts with IPv6 addresses: on loopback and, with a scope, on a link."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.transport import Connection
from cpudeploy.types.deployment import Host, Ssh

from .conftest import Sshd, public, start_sshd

Open = Callable[..., Connection]


def link_local() -> str:
    """An address of this machine that needs its interface named, or nothing."""
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        address, _, _, scope, flags, interface = line.split()
        if scope == "20" and not int(flags, 16) & 0x40:  # a link's, and not still being probed for
            return f"{socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))}%{interface}"
    return ""


@pytest.fixture(params=["loopback", "link"])
def place(request: pytest.FixtureRequest, sshd: Sshd, tmp_path: Path) -> Iterator[tuple[str, int, Path]]:
    """(address, port, ssh configuration) of an sshd that only listens there."""
    address = "::1" if request.param == "loopback" else link_local()
    if not Path("/proc/net/if_inet6").exists() or not address:
        pytest.skip(f"this machine has no IPv6 address of its {request.param}")
    host_key = sshd.folder / "host_key"
    process, port = start_sshd(sshd.folder, host_key=host_key, address=address)
    kind, blob = public(host_key).split()[:2]
    known = tmp_path / "known_hosts"
    known.write_text(f"[{address}]:{port} {kind} {blob}\n[127.0.0.1]:{sshd.port} {kind} {blob}\n")
    config = tmp_path / "config"
    config.write_text(
        f"Host *\n UserKnownHostsFile {known}\n GlobalKnownHostsFile none\n User root\n"
        f" IdentityFile {sshd.key}\n IdentitiesOnly yes\n"
    )
    yield address, port, config
    process.terminate()
    process.wait()


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_it_is_reached_with_and_without_brackets(
    place: tuple[str, int, Path], open_connection: Open, form: str
) -> None:
    address, port, config = place
    ssh = Ssh(address=form.format(address), port=port, config=str(config))
    connection = open_connection(Host(name="h1", ssh=ssh))
    done = connection.run('echo "$SSH_CONNECTION"', deadline_s=20)
    assert done.stdout.decode().split()[2].partition("%")[0] == address.partition("%")[0]


def test_it_may_be_a_jump_and_be_behind_one(place: tuple[str, int, Path], open_connection: Open, sshd: Sshd):
    address, port, config = place
    config.write_text(
        f"Host behind\n HostName {address.replace('%', '%%')}\n Port {port}\n ProxyJump 127.0.0.1:{sshd.port}\n"
        f"Host before\n HostName 127.0.0.1\n Port {sshd.port}\n ProxyJump [{address}]:{port}\n"
        + config.read_text()
    )
    for name in ("behind", "before"):
        connection = open_connection(Host(name="h1", ssh=Ssh(address=name, config=str(config))))
        assert connection.run("echo here", deadline_s=20).stdout == b"here\n"
