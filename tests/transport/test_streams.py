"""Byte streams over a real connection: ports, engines, scripts; and files put in place."""

from __future__ import annotations

import os
import signal
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectError, ConnectionLost, OperationFailed
from cpudeploy.transport import Connection
from cpudeploy.types.deployment import Host

from .conftest import Sshd, free_port, public, start_sshd


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


@pytest.fixture
def echo_port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def other_sshd(sshd: Sshd, folder: Path, extra: str) -> Iterator[Host]:
    """A host whose sshd has a line more in its configuration."""
    process, port = start_sshd(sshd.folder, host_key=sshd.folder / "host_key", extra=extra)
    kind, blob = public(sshd.folder / "host_key").split()[:2]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {kind} {blob}\n")
    config = folder / "config"
    config.write_text(f"Host *\n UserKnownHostsFile {folder}/known\n IdentityFile {sshd.key}\n")
    try:
        yield sshd.host("root", port=port, config=config)
    finally:
        process.terminate()
        process.wait()


def read_all(read: Callable[[int], bytes], size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = read(65536)
        assert data
        found += data
    return found


def test_a_port_of_the_host_is_reached(as_root: Connection, echo_port: int) -> None:
    stream = as_root.dial_tcp("127.0.0.1", echo_port)
    data = os.urandom(3_000_000)
    writer = threading.Thread(target=stream.write, args=(data,))
    writer.start()
    assert read_all(lambda size: stream.read(size, 20), len(data)) == data
    writer.join()
    stream.close()


def test_reading_what_does_not_come_times_out(as_root: Connection, echo_port: int) -> None:
    stream = as_root.dial_tcp("127.0.0.1", echo_port)
    assert not stream.readable()
    with pytest.raises(TimeoutError):
        stream.read(1, 0.1)
    stream.write(b"late", 5)
    assert stream.read(10, 20) == b"late"


def test_a_port_nobody_listens_on_is_told(as_root: Connection) -> None:
    with pytest.raises(OperationFailed, match=r"can't reach 127.0.0.1:"):
        as_root.dial_tcp("127.0.0.1", free_port())


def test_a_server_that_forbids_forwarding_is_told(
    sshd: Sshd, open_connection: Callable[..., Connection], tmp_path: Path, echo_port: int
) -> None:
    with other_sshd(sshd, tmp_path, "AllowTcpForwarding no") as host:
        connection = open_connection(host)
        with pytest.raises(ConnectError, match=r"does not allow 127.0.0.1"):
            connection.dial_tcp("127.0.0.1", echo_port)


def test_a_server_with_too_few_sessions_says_which_setting_to_raise(
    sshd: Sshd, open_connection: Callable[..., Connection], tmp_path: Path
) -> None:
    with other_sshd(sshd, tmp_path, "MaxSessions 1") as host:
        connection = open_connection(host)
        stream = connection.stream("exec cat", deadline_s=20)
        with pytest.raises(ConnectError, match="another session") as error:
            connection.run("true", deadline_s=20)
        stream.close()
    assert "raise MaxSessions" in error.value.do


def test_a_host_that_freezes_is_a_lost_connection(as_root: Connection) -> None:
    # The parent of the session's leader is sshd's process for this connection.
    find = "leader=$(cut -d ' ' -f 6 /proc/$$/stat); cut -d ' ' -f 4 /proc/$leader/stat"
    server = int(as_root.run(find, deadline_s=20).stdout)
    os.kill(server, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionLost, match="no channel for another session"):
            as_root.run("true", deadline_s=1)
    finally:
        os.kill(server, signal.SIGCONT)


def test_a_script_can_be_a_stream(as_root: Connection) -> None:
    stream = as_root.stream('printf "$greeting"; cat', args={"greeting": "hello "}, deadline_s=20)
    data = os.urandom(100_000)
    stream.write(data, 20)
    assert read_all(lambda size: stream.read(size, 20), 100_006) == b"hello " + data
    stream.close()


def test_a_stream_that_ends_without_a_byte_tells_what_was_said(as_root: Connection) -> None:
    stream = as_root.stream("echo no such thing >&2; exit 1", deadline_s=20, failure="the engine")
    with pytest.raises(OperationFailed, match="the engine: no such thing"):
        stream.read(1, 20)


def test_a_stream_that_spoke_just_ends(as_root: Connection) -> None:
    stream = as_root.stream("echo word; echo noise >&2", deadline_s=20)
    assert stream.read(100, 20) == b"word\n"
    assert stream.read(100, 20) == b""


def test_closing_a_stream_ends_its_script(as_root: Connection) -> None:
    stream = as_root.stream("echo $$; exec cat", deadline_s=20)
    pid = int(stream.read(100, 20))
    stream.close()
    done = as_root.run(
        'n=0; while test -d "/proc/$pid" && test $n -lt 100; do n=$((n+1)); sleep 0.1; done; '
        'test ! -d "/proc/$pid"',
        args={"pid": str(pid)},
        deadline_s=30,
    )
    assert done.rc == 0


def test_eight_channels_at_once_and_the_ninth_waits(as_root: Connection, echo_port: int) -> None:
    streams = [as_root.dial_tcp("127.0.0.1", echo_port) for _ in range(8)]
    with pytest.raises(OperationFailed, match="all 8 channels are in use"):
        as_root.run("true", deadline_s=1)
    threading.Timer(0.5, streams[0].close).start()
    assert as_root.run("echo free", deadline_s=20).stdout == b"free\n"
    for stream in streams:
        stream.close()


def test_scripts_run_beside_each_other(as_root: Connection) -> None:
    results: dict[int, bytes] = {}

    def run(number: int) -> None:
        results[number] = as_root.run(
            "cat; echo $n", args={"n": str(number)}, stdin=b"x", deadline_s=30
        ).stdout

    threads = [threading.Thread(target=run, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"x{number}\n".encode() for number in range(12)}


def test_a_file_is_put_in_place_with_mode_and_owner(as_root: Connection, tmp_path: Path) -> None:
    target = tmp_path / "new" / "it's a file"
    data = bytes(range(256)) * 4000
    as_root.put(str(target), data, mode="0640", owner="daemon", deadline_s=20)
    assert target.read_bytes() == data
    assert target.stat().st_mode & 0o7777 == 0o640
    assert target.owner() == "daemon"
    assert [entry.name for entry in target.parent.iterdir()] == [target.name]


def test_a_file_that_is_there_is_replaced_whole(as_root: Connection, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old and longer")
    as_root.put(str(target), b"", mode="0600", deadline_s=20)
    assert target.read_bytes() == b""


def test_a_file_that_cannot_be_put_leaves_the_old_one(as_root: Connection, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(OperationFailed, match=r"writing .*file failed: chown"):
        as_root.put(str(target), b"new", mode="0600", owner="no-such-user", deadline_s=20)
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
