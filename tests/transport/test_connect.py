"""Reaching a real sshd, or being told why not."""

from __future__ import annotations

import base64
import hashlib
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectError
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, Starts, connect
from cpudeploy.types.deployment import Host, Ssh

from .conftest import Sshd, free_port, new_key, public, sh, start_sshd, until

Open = Callable[..., Connection]


def fingerprint(key: Path) -> str:
    blob = base64.b64decode(public(key).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def config_with(sshd: Sshd, known_hosts: Path) -> Path:
    file = known_hosts.with_name("config")
    file.write_text(
        f"Host *\n UserKnownHostsFile {known_hosts}\n GlobalKnownHostsFile none\n"
        f" IdentityFile {sshd.key}\n IdentitiesOnly yes\n"
    )
    return file


def works(connection: Connection) -> bool:
    return connection.run("echo here", deadline_s=20).stdout == b"here\n"


def test_an_unknown_host_key_is_refused_with_its_fingerprint(
    sshd: Sshd, open_connection: Open, tmp_path: Path
) -> None:
    config = config_with(sshd, tmp_path / "known_hosts")
    with pytest.raises(ConnectError, match="host key is unknown") as caught:
        open_connection(sshd.host("root", config=config))
    assert fingerprint(sshd.folder / "host_key") in caught.value.what
    assert "accept-new" in caught.value.do
    assert not (tmp_path / "known_hosts").exists()


def test_accept_new_records_the_key_and_then_holds_to_it(
    sshd: Sshd, open_connection: Open, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "new folder" / "known_hosts"
    known_hosts.parent.mkdir()
    config = config_with(sshd, tmp_path / "known_hosts")
    accepting = sshd.host("root", config=config, host_keys="accept-new")
    first = open_connection(accepting)
    assert works(first)
    assert any(fingerprint(sshd.folder / "host_key") in note for note in first.notes)
    assert open_connection(sshd.host("root", config=config)).notes == ()


def test_a_changed_host_key_is_refused_naming_file_and_line_even_with_accept_new(
    sshd: Sshd, open_connection: Open, tmp_path: Path
) -> None:
    other = new_key(tmp_path / "other")
    known_hosts = tmp_path / "known_hosts"
    kind, blob = public(other).split()[:2]
    known_hosts.write_text(f"# ours\n[127.0.0.1]:{sshd.port} {kind} {blob}\n")
    before = known_hosts.read_text()
    for policy in ("strict", "accept-new"):
        with pytest.raises(ConnectError, match="HOST KEY CHANGED") as caught:
            open_connection(sshd.host("root", config=config_with(sshd, known_hosts), host_keys=policy))
        assert f"{known_hosts}:2" in caught.value.what
        assert fingerprint(sshd.folder / "host_key") in caught.value.what
    assert known_hosts.read_text() == before


def test_a_hashed_known_hosts_file_is_understood(sshd: Sshd, open_connection: Open, tmp_path: Path) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text((sshd.folder / "known_hosts").read_text())
    sh("ssh-keygen", "-q", "-H", "-f", known_hosts)
    assert "127.0.0.1" not in known_hosts.read_text()
    assert works(open_connection(sshd.host("root", config=config_with(sshd, known_hosts))))


def test_a_server_with_several_keys_is_asked_for_the_one_we_know(
    sshd: Sshd, open_connection: Open, tmp_path: Path
) -> None:
    rsa = new_key(sshd.folder / "host_rsa", "rsa")
    process, port = start_sshd(sshd.folder, host_key=sshd.folder / "host_key", extra=f"HostKey {rsa}")
    try:
        known_hosts = tmp_path / "known_hosts"
        kind, blob = public(rsa).split()[:2]
        known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {blob}\n")
        host = sshd.host("root", port=port, config=config_with(sshd, known_hosts))
        connection = open_connection(host)
        assert works(connection)
        connection.close()
    finally:
        process.terminate()
        process.wait()


def test_a_refused_key_is_named(sshd: Sshd, open_connection: Open, tmp_path: Path) -> None:
    wrong = new_key(tmp_path / "id_wrong")
    with pytest.raises(ConnectError, match=f"login as root failed; tried: {wrong}: refused by the host"):
        open_connection(sshd.host("root", config=sshd.config("wrong", key=wrong)))


def test_an_sshd_that_hangs_up_after_two_refused_keys_is_no_broken_connection(
    sshd: Sshd, open_connection: Open, tmp_path: Path
) -> None:
    """Hardened servers allow fewer tries than sshd does by itself; trying again would only be counted too."""
    config = config_with(sshd, tmp_path / "known_hosts")
    wrong = [new_key(tmp_path / f"id_wrong{number}") for number in range(3)]
    config.write_text("Host *\n" + "".join(f" IdentityFile {key}\n" for key in wrong) + config.read_text())
    process, port = start_sshd(sshd.folder, host_key=sshd.folder / "host_key", extra="MaxAuthTries 2")
    try:
        with pytest.raises(ConnectError, match="login as root failed; tried: ") as caught:
            open_connection(sshd.host("root", port=port, config=config, host_keys="accept-new"))
        log = sshd.folder / f"sshd.{port}.log"
        assert until(lambda: "attempts exceeded" in log.read_text())
    finally:
        process.terminate()
        process.wait()
    assert [str(key) in caught.value.what for key in wrong] == [True, True, False]
    assert "after 2 keys" in caught.value.do
    assert log.read_text().count("attempts exceeded") == 1


def test_a_key_with_a_passphrase_is_named_and_nothing_is_asked(
    sshd: Sshd, open_connection: Open, tmp_path: Path
) -> None:
    locked = new_key(tmp_path / "id_locked", passphrase="secret words")
    with pytest.raises(ConnectError, match=f"{locked}: needs its passphrase"):
        open_connection(sshd.host("root", config=sshd.config("locked", key=locked)))


def test_no_key_at_all_is_told(sshd: Sshd, open_connection: Open, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="there is no key to try"):
        open_connection(sshd.host("root", config=sshd.config("none", key=tmp_path / "absent")))


def test_an_agent_holds_the_key(
    sshd: Sshd, open_connection: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = new_key(tmp_path / "id_agent", passphrase="secret words")
    plain = tmp_path / "id_plain"
    plain.write_bytes(locked.read_bytes())
    plain.chmod(0o600)
    sh("ssh-keygen", "-q", "-p", "-P", "secret words", "-N", "", "-f", plain)
    authorized = sshd.folder / "authorized_keys"
    before = authorized.read_text()
    said = sh("ssh-agent", "-s", "-a", tmp_path / "agent")
    pid = said.split("SSH_AGENT_PID=")[1].split(";")[0]
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    try:
        sh("ssh-add", "-q", plain)
        authorized.write_text(before + public(locked))
        assert works(open_connection(sshd.host("root", config=sshd.config("agent", key=locked))))
    finally:
        authorized.write_text(before)
        sh("kill", pid)


def test_a_closed_port_is_refused(sshd: Sshd, open_connection: Open) -> None:
    with pytest.raises(ConnectError, match="refused the connection"):
        open_connection(sshd.host("root", port=free_port()))


def test_a_name_that_does_not_resolve_is_told(sshd: Sshd, open_connection: Open) -> None:
    with pytest.raises(ConnectError, match=r"cannot resolve no-such-host.invalid"):
        open_connection(sshd.host("root", address="no-such-host.invalid"))


def test_an_address_that_looks_like_an_option_is_refused(sshd: Sshd, open_connection: Open) -> None:
    with pytest.raises(ConnectError, match="is no address"):
        open_connection(sshd.host("root", address="-oProxyCommand=touch /tmp/pwned"))


class Resetting(socketserver.ThreadingTCPServer):
    """Cuts the first `cuts` connections off, then passes bytes on to a port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, cuts: int, port: int) -> None:
        self.cuts, self.port, self.seen = cuts, port, 0
        super().__init__(("127.0.0.1", 0), Pipe)


class Pipe(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Resetting)
        server.seen += 1
        if server.seen <= server.cuts:
            return
        with socket.create_connection(("127.0.0.1", server.port)) as onward:
            threading.Thread(target=copy, args=(onward, self.request), daemon=True).start()
            copy(self.request, onward)


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass


@pytest.fixture
def resetting(sshd: Sshd) -> Iterator[Callable[[int], Resetting]]:
    servers: list[Resetting] = []

    def start(cuts: int) -> Resetting:
        server = Resetting(cuts, sshd.port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_resets_at_connect_are_tried_again(
    sshd: Sshd, open_connection: Open, resetting: Callable[[int], Resetting]
) -> None:
    server = resetting(2)
    config = sshd.config("alias", extra=f"Host 127.0.0.1\n HostKeyAlias [127.0.0.1]:{sshd.port}\n")
    host = sshd.host("root", port=server.server_address[1], config=config)
    assert works(open_connection(host))
    assert server.seen == 3


def test_resets_that_go_on_are_told(
    sshd: Sshd, open_connection: Open, resetting: Callable[[int], Resetting]
) -> None:
    server = resetting(100)
    with pytest.raises(ConnectError, match="broke off before SSH was set up"):
        open_connection(sshd.host("root", port=server.server_address[1]))
    assert server.seen == 3


@pytest.mark.parametrize("deaths", [1, 100])
def test_a_login_that_breaks_off_is_tried_again_and_not_taken_for_a_refused_key(
    sshd: Sshd, open_connection: Open, tmp_path: Path, deaths: int
) -> None:
    """sshd's process dies when it looks for keys. Where it takes that command from nobody may write."""
    folder = Path(tempfile.mkdtemp(dir="/run"))
    folder.chmod(0o755)
    command = folder / "keys"
    command.write_text(
        f"#!/bin/sh\necho >>{folder}/asked\n"
        f"[ $(wc -l <{folder}/asked) -gt {deaths} ] || kill -KILL $PPID\ncat {sshd.folder}/authorized_keys\n"
    )
    command.chmod(0o755)
    extra = f"AuthorizedKeysCommand {command}\nAuthorizedKeysCommandUser root"
    config = config_with(sshd, tmp_path / "known_hosts")
    process, port = start_sshd(sshd.folder, host_key=sshd.folder / "host_key", extra=extra, keys_file="none")
    host = sshd.host("root", port=port, config=config, host_keys="accept-new")
    try:
        if deaths == 1:
            assert works(open_connection(host))
        else:
            with pytest.raises(ConnectError, match="broke off in the middle of the login"):
                open_connection(host)
        assert len((folder / "asked").read_text().splitlines()) >= 2
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def test_many_at_once_never_knock_at_one_door_together(sshd: Sshd, tmp_path: Path) -> None:
    """Sixteen hosts behind one jump, whose sshd turns everybody away beyond ten that are not logged in yet."""
    process, port = start_sshd(sshd.folder, host_key=sshd.folder / "host_key", extra="MaxStartups 10:100:10")
    kind, blob = public(sshd.folder / "host_key").split()[:2]
    known = tmp_path / "known_hosts"
    known.write_text(f"door {kind} {blob}\ninner {kind} {blob}\n")
    config = config_with(sshd, known)
    config.write_text(
        f"Host h*\n HostName 127.0.0.1\n Port {sshd.port}\n HostKeyAlias inner\n ProxyJump door\n User root\n"
        f"Host door\n HostName 127.0.0.1\n Port {port}\n HostKeyAlias door\n User root\n" + config.read_text()
    )
    starts = Starts()

    def reach(number: int) -> bool:
        host = Host(name=f"h{number}", ssh=Ssh(address=f"h{number}", config=str(config)))
        connection = connect(host, Secrets(tmp_path), starts)
        try:
            return works(connection)
        finally:
            connection.close()

    try:
        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(reach, range(16)))
    finally:
        process.terminate()
        process.wait()
    log = (sshd.folder / f"sshd.{port}.log").read_text()
    assert log.count("Accepted publickey") == 16
    assert "MaxStartups" not in log


def test_a_jump_from_the_ssh_configuration_is_taken(sshd: Sshd, open_connection: Open) -> None:
    config = sshd.config(
        "jump",
        extra=f"Host inner\n HostName localhost\n Port {sshd.port}\n ProxyJump root@127.0.0.1:{sshd.port}\n"
        f" HostKeyAlias [127.0.0.1]:{sshd.port}\n",
    )
    connection = open_connection(Host(name="h1", ssh=Ssh(address="inner", user="root", config=str(config))))
    done = connection.run('echo "$SSH_CONNECTION"', deadline_s=20)
    assert done.rc == 0


def test_a_failing_jump_is_blamed_and_not_the_host(sshd: Sshd, open_connection: Open) -> None:
    port = free_port()
    config = sshd.config("badjump", extra=f"Host inner\n ProxyJump root@127.0.0.1:{port}\n")
    with pytest.raises(ConnectError, match=f"127.0.0.1 port {port} refused") as caught:
        open_connection(Host(name="h1", ssh=Ssh(address="inner", user="root", config=str(config))))
    assert caught.value.where == "h1 (jump 127.0.0.1)"


def test_a_proxy_command_is_run_with_its_tokens(sshd: Sshd, open_connection: Open) -> None:
    command = f"ssh -F {sshd.folder}/plain -W %h:%p -p {sshd.port} root@127.0.0.1"
    sshd.config("plain")
    config = sshd.config("proxy", extra=f"Match host 127.0.0.1\n ProxyCommand {command}\n")
    assert works(open_connection(sshd.host("root", config=config)))


@pytest.mark.parametrize("command", ["/no/such/program %h", "sh -c 'exit 3'"])
def test_a_proxy_command_that_fails_is_blamed_and_not_the_host(
    sshd: Sshd, open_connection: Open, command: str
) -> None:
    config = sshd.config("badproxy", extra=f"Match host 127.0.0.1\n ProxyCommand {command}\n")
    with pytest.raises(ConnectError, match="the ProxyCommand to 127.0.0.1") as caught:
        open_connection(sshd.host("root", config=config))
    assert "sshd log" not in caught.value.do
