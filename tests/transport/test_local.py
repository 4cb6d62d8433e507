"""This machine as a host, and the dialogue in a world of nothing but busybox."""

from __future__ import annotations

import http.server
import subprocess
import threading
from pathlib import Path

import pytest

from cpudeploy.errors import OperationFailed
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, connect
from cpudeploy.transport.http import http_client
from cpudeploy.transport.scripts import PUT
from cpudeploy.transport.shell import assignments, quote

from .busybox import HERE, Busybox, busybox_world
from .conftest import free_port, until


@pytest.fixture(scope="module")
def busybox(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Busybox:
    return busybox_world(tmp_path_factory.mktemp("busybox"))


@pytest.fixture(params=["here", "busybox"])
def connection(request: pytest.FixtureRequest, programs: None) -> Connection:
    if request.param == "busybox":
        found: Busybox = request.getfixturevalue("busybox")
        return found
    return connect(HERE, Secrets(Path("/")))


def test_scripts_run_with_arguments_and_stdin(connection: Connection) -> None:
    data = bytes(range(256)) * 2000
    done = connection.run('cat; echo "$a" >&2; exit 5', args={"a": "it's"}, stdin=data, deadline_s=30)
    assert (done.rc, done.stdout, done.stderr) == (5, data, "it's\n")


def test_long_scripts_run(connection: Connection) -> None:
    done = connection.run("# a line that only takes room\n" * 7000 + "echo done", deadline_s=30)
    assert done.stdout == b"done\n"


def test_streams_pass_bytes(connection: Connection) -> None:
    stream = connection.stream("cat", deadline_s=20)
    stream.write(b"\0binary\n" * 1000, 20)
    found = b""
    while len(found) < 8000:
        found += stream.read(65536, 20)
    assert found == b"\0binary\n" * 1000
    stream.close()


def test_at_the_deadline_the_script_is_ended(connection: Connection) -> None:
    with pytest.raises(OperationFailed, match=r"did not end within 1 s.*begun"):
        connection.run("echo begun; sleep 300", deadline_s=1)


def test_closing_ends_what_a_script_started(tmp_path: Path) -> None:
    here = connect(HERE, Secrets(tmp_path))
    pids: list[str] = []
    with pytest.raises(OperationFailed):
        here.run("sleep 300 & echo $!; wait", deadline_s=1, on_line=pids.append)
    assert until(lambda: not Path(f"/proc/{pids[0]}").exists())


def test_files_are_put(tmp_path: Path) -> None:
    here = connect(HERE, Secrets(tmp_path))
    here.put(str(tmp_path / "a" / "file"), b"\0content", mode="0600", deadline_s=20)
    assert (tmp_path / "a" / "file").read_bytes() == b"\0content"


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """What a power cut at the wrong moment would leave, seen by the `sync` that is asked for."""
    seen, target, programs = tmp_path / "seen", tmp_path / "file", tmp_path / "programs"
    target.write_text("old")
    programs.mkdir()
    spy = programs / "sync"
    spy.write_text(f'#!/bin/sh\ncat "$1" {quote(str(target))} >{quote(str(seen))}\n')
    spy.chmod(0o755)
    args = {"path": str(target), "mode": "0600", "owner": "root", "size": "3"}
    path = f"{programs}:/usr/bin:/bin"
    subprocess.run(["sh", "-c", assignments(args) + PUT], input=b"new", env={"PATH": path}, check=True)
    assert (seen.read_text(), target.read_text()) == ("newold", "new")


def test_ports_of_this_machine_are_reached(tmp_path: Path) -> None:
    here = connect(HERE, Secrets(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        with http_client(lambda: here.dial_tcp("127.0.0.1", port), timeout_s=10) as client:
            assert client.get("/no-such-file").status_code == 404
        server.shutdown()
    closed = free_port()
    with pytest.raises(OperationFailed, match="can't be reached"):
        here.dial_tcp("127.0.0.1", closed)
