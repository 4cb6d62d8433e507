"""Weights streamed by the controller: from a server with faults, through a real shell dialogue, to a host with
everything and to one that has busybox and nothing else."""

from __future__ import annotations

import hashlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.errors import HostError, HubError, OperationFailed
from cpudeploy.execute.fetch import fetch
from cpudeploy.execute.fetching import script
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Completed, Connection, connect
from cpudeploy.transport.local import LocalConnection
from cpudeploy.transport.shell import assignments
from cpudeploy.types.base import SecretRef
from cpudeploy.types.operation import Fetch
from cpudeploy.types.resolved import WeightFile
from tests.execute.file_server import FileServer, serving
from tests.resolve.registries import free_port
from tests.transport.busybox import HERE, busybox_world
from tests.transport.conftest import programs

__all__ = ["programs"]

CONTENT = bytes(range(256)) * 4096
SHA = hashlib.sha256(CONTENT).hexdigest()


class Host:
    """A connection, its weights folder, and what was told while fetching into it."""

    def __init__(self, connection: Connection, root: Path, folder: str, secrets: Path) -> None:
        self.connection = connection
        self.folder = folder
        self.there = root / folder.lstrip("/")
        self.secrets = Secrets(secrets)
        self.progress: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self.pauses: list[float] = []
        self.chroot = [] if root == Path("/") else ["chroot", str(root)]
        self.on_progress: Callable[[int], None] = lambda done: None

    def fetch(self, *urls: str, via: str = "controller", stall_s: int = 2, **file: object) -> None:
        known = {"name": "model.gguf", "size": len(CONTENT), "sha256": SHA}
        operation = Fetch(
            id="1",
            deadline_s=60,
            weights_dir=self.folder,
            file=WeightFile(**{**known, "urls": urls, **file}),  # type: ignore[arg-type]
            via=via,
            stall_s=stall_s,
        )
        fetch(self.connection, operation, self.secrets, self._told, self.notes.append, self.pauses.append)

    def _told(self, done: int, total: int) -> None:
        self.progress.append((done, total))
        self.on_progress(done)

    @property
    def blob(self) -> Path:
        return self.there / "blobs" / SHA

    @property
    def partial(self) -> Path:
        return self.there / "partial" / SHA


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving(CONTENT) as running:
        yield running


@pytest.fixture(params=["everything", "busybox", "busybox without flock"])
def host(request: pytest.FixtureRequest, programs: None, tmp_path: Path) -> Iterator[Host]:
    if request.param == "everything":
        yield Host(connect(HERE, Secrets(tmp_path)), Path("/"), str(tmp_path / "weights"), tmp_path)
        return
    world = tmp_path / "world"
    world.mkdir()
    missing = ("flock",) if "without" in request.param else ()
    connection = busybox_world(world, without=(*missing, "wget"))
    subprocess.run(["mount", "-t", "proc", "proc", str(world / "proc")], check=True)
    try:
        yield Host(connection, world, "/srv/weights", tmp_path)
    finally:
        subprocess.run(["umount", str(world / "proc")], check=True)


def test_a_file_arrives_verified_and_readable_by_all(host: Host, server: FileServer) -> None:
    host.fetch(server.url)
    stat = host.blob.stat()
    assert host.blob.read_bytes() == CONTENT
    assert (oct(stat.st_mode & 0o777), oct(host.there.stat().st_mode & 0o777)) == ("0o644", "0o755")
    meta = host.there / "blobs" / f"{SHA}.meta"
    assert meta.read_text().split() == [str(stat.st_size), str(int(stat.st_mtime)), str(stat.st_ino)]
    assert host.progress[-1] == (len(CONTENT), len(CONTENT))
    assert list((host.there / "partial").iterdir()) == []


def test_a_file_that_is_there_is_not_fetched_again(host: Host, server: FileServer) -> None:
    host.fetch(server.url)
    host.fetch(server.url)
    assert len(server.requests) == 1


def test_a_source_that_breaks_off_is_asked_for_the_rest(host: Host, server: FileServer) -> None:
    server.cut_after, server.cuts = 300_000, 2
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    starts = [int(request["range"].strip("bytes=-")) for request in server.requests if "range" in request]
    assert len(server.requests) == 3
    assert starts == sorted(starts) and starts[-1] > 300_000


def test_what_an_earlier_run_left_is_used(host: Host, server: FileServer) -> None:
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT[:1000])
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert server.requests[0]["range"] == "bytes=1000-"


def test_all_of_it_left_by_an_earlier_run_is_only_hashed(host: Host, server: FileServer) -> None:
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT)
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert server.requests == []


def test_a_source_without_ranges_gives_it_all_and_the_host_still_gets_only_the_rest(
    host: Host, server: FileServer
) -> None:
    server.ranges = False
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT[:1000])
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert not host.notes


def test_a_damaged_partial_is_discarded_and_fetched_again(host: Host, server: FileServer) -> None:
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(b"x" * 1000)
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert any("wrong checksum" in note for note in host.notes)


@pytest.mark.parametrize("content", [b"y" * len(CONTENT), CONTENT + b"more", CONTENT[:-1]])
def test_another_file_is_refused_and_the_next_source_asked(
    host: Host, server: FileServer, content: bytes
) -> None:
    with serving(content) as liar:
        host.fetch(liar.url, server.url)
        assert host.blob.read_bytes() == CONTENT
        host.blob.unlink()
        with pytest.raises(HubError, match=f"127.0.0.1:{liar.port}"):
            host.fetch(liar.url)
    assert not host.blob.exists()


def test_a_longer_file_of_unsaid_length_spoils_nothing_for_the_next_source(
    host: Host, server: FileServer
) -> None:
    with serving(b"y" * (2 * len(CONTENT))) as liar:
        liar.length = False
        host.fetch(liar.url, server.url)
    assert host.blob.read_bytes() == CONTENT


def test_a_source_that_stalls_is_given_up_for_the_next_with_what_arrived(
    host: Host, server: FileServer
) -> None:
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        host.fetch(slow.url, server.url)
    assert host.blob.read_bytes() == CONTENT
    assert any("nothing came for 2 s" in note for note in host.notes)
    assert int(server.requests[0]["range"].strip("bytes=-")) > 0


def test_a_busy_source_is_asked_five_times_and_a_missing_file_once(host: Host, server: FileServer) -> None:
    for status, times in ((503, 5), (404, 1)):
        server.status = status
        server.requests.clear()
        with pytest.raises(HubError, match=f"it answered {status}"):
            host.fetch(server.url)
        assert len(server.requests) == times


def test_the_token_goes_to_its_host_and_not_where_that_redirects(
    host: Host, server: FileServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("hf_secret\n")
    with serving(b"") as origin:
        # Another host name for the same loopback: what counts is that the host differs.
        origin.redirect = server.url.replace("127.0.0.1", "localhost")
        token = SecretRef(kind="from_file", name="token")
        mine = f"http://127.0.0.1:{origin.port}/"
        host.fetch(origin.url, token=token, token_for=mine, token_cookie="session")
        assert origin.requests[0]["authorization"] == "Bearer hf_secret"
        assert origin.requests[0]["cookie"] == "session=hf_secret"
    assert not {"authorization", "cookie"} & server.requests[0].keys()


class Walled(LocalConnection):
    """A host whose curl has no way out."""

    def run(self, script: str, **how: Any) -> Completed:
        return super().run(f"export http_proxy=http://127.0.0.1:{free_port()}\n{script}", **how)


class Cut(Exception):
    """What ends a fetch in its middle."""


def test_cut_off_in_the_middle_the_next_goes_on_where_the_host_is(host: Host, server: FileServer) -> None:
    def cut(done: int) -> None:
        if done > 0:
            raise Cut

    host.on_progress = cut
    with serving(CONTENT) as slow, pytest.raises(Cut):
        slow.stall = threading.Event()
        host.fetch(slow.url, stall_s=30)
    host.on_progress = lambda done: None
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert int(server.requests[0]["range"].strip("bytes=-")) > 0


def test_two_at_a_time_wait_for_each_other(host: Host, server: FileServer, tmp_path: Path) -> None:
    """The second begins while the first is held up, and then finds the file there."""
    begun, second_error = threading.Event(), []
    host.on_progress = lambda done: begun.set() if done else None
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        first = threading.Thread(target=host.fetch, args=(slow.url, server.url), kwargs={"stall_s": 4})
        first.start()
        assert begun.wait(20)
        other = Host(host.connection, Path("/"), host.folder, tmp_path)
        try:
            other.fetch(server.url)
        except OperationFailed as error:
            second_error.append(error)
        first.join()
    assert second_error == []
    assert host.blob.read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize("host", ["busybox"], indirect=True)
def test_nothing_is_asked_for_while_the_host_still_hashes_what_it_has(host: Host, server: FileServer) -> None:
    """Minutes, for much of a large model on a slow disk: longer than a source may be silent."""
    slow = Path(host.chroot[1]) / "bin" / "sha256sum"
    slow.unlink()
    slow.write_text("#!/bin/sh\nsleep 5\nexec busybox sha256sum\n")
    slow.chmod(0o755)
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT[:400_000])
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert [request["range"] for request in server.requests] == ["bytes=400000-"]
    assert not host.notes


def test_a_receiver_that_was_killed_binds_nobody(host: Host, server: FileServer) -> None:
    """Killed in earnest; what it was connected by then closes, as sshd does it."""
    args = {"dir": host.folder, "sha": SHA, "size": str(len(CONTENT)), "state": "/var/lib/cpudeploy"}
    text = assignments({**args, "patience": "15", "stall": "60"}) + script("receive")
    pipe = subprocess.PIPE
    receiver = subprocess.Popen([*host.chroot, "/bin/sh", "-c", text], stdin=pipe, stdout=pipe)
    assert receiver.stdin and receiver.stdout
    told = iter(receiver.stdout.readline, b"")
    assert any(line == b"begin 0\n" for line in told)
    receiver.stdin.write(CONTENT[:65536])
    receiver.stdin.flush()
    assert any(line.startswith(b"have ") and line != b"have 0\n" for line in told)
    receiver.kill()
    receiver.stdin.close()
    receiver.wait()
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert int(server.requests[0]["range"].strip("bytes=-")) > 0
    assert [file for file in host.partial.parent.iterdir() if "lock" in file.name] == []


def test_a_full_disk_is_told_before_anything_is_asked_for(
    host: Host, server: FileServer, tmp_path: Path
) -> None:
    host.there.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(host.there)], check=True)
    try:
        with pytest.raises(HostError, match="are free"):
            host.fetch(server.url)
        assert server.requests == []
    finally:
        subprocess.run(["umount", str(host.there)], check=True)


def test_auto_streams_what_the_host_itself_can_not_reach(host: Host, server: FileServer) -> None:
    """No curl there, or a curl that reaches nothing: this machine does."""
    if not host.chroot:
        host.connection = Walled(HERE, host.secrets)
    host.fetch(server.url, via="auto")
    assert host.blob.read_bytes() == CONTENT
    why = "the host has no curl" if host.chroot else "the host does not reach where the file is"
    assert f"{why}: model.gguf is streamed through this machine" in host.notes
    assert [request["user-agent"] for request in server.requests] == ["cpudeploy"]


def test_auto_leaves_it_to_the_host_where_that_works(
    programs: None, server: FileServer, tmp_path: Path
) -> None:
    host = Host(connect(HERE, Secrets(tmp_path)), Path("/"), str(tmp_path / "weights"), tmp_path)
    host.fetch(server.url, via="auto")
    assert host.blob.read_bytes() == CONTENT
    assert host.notes == []


def test_what_the_source_has_not_got_is_not_looked_for_another_way(
    programs: None, server: FileServer, tmp_path: Path
) -> None:
    host = Host(connect(HERE, Secrets(tmp_path)), Path("/"), str(tmp_path / "weights"), tmp_path)
    server.status = 404
    with pytest.raises(HubError, match="404"):
        host.fetch(server.url, via="auto")
    assert len(server.requests) == 1


def test_nothing_is_streamed_where_the_host_is_told_to_fetch(host: Host, server: FileServer) -> None:
    url = f"http://127.0.0.1:{free_port()}/model.gguf"
    with pytest.raises((HubError, HostError)):
        host.fetch(url, via="host")
    assert not any("streamed" in note for note in host.notes)
