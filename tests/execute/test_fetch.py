"""Downloads by a real sh and a real curl from a server with faults."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.errors import HostError, HubError, OperationFailed
from cpudeploy.execute.by_curl import curl_config
from cpudeploy.execute.fetch import fetch
from cpudeploy.execute.fetching import script
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.operation import Fetch
from cpudeploy.types.resolved import WeightFile
from tests.execute.file_server import FileServer, serving
from tests.execute.local_shell import LocalShell

CONTENT = bytes(range(256)) * 4096
SHA = hashlib.sha256(CONTENT).hexdigest()
COREUTILS = (
    *("cat", "chmod", "cut", "df", "head", "mkdir", "mv", "rm", "sha256sum", "sleep", "stat", "sync"),
    *("sh", "tail", "tee"),
)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving(CONTENT) as running:
        yield running


@pytest.fixture(params=["sh", "busybox", "no flock"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> LocalShell:
    if request.param == "busybox":
        return LocalShell(("busybox", "sh", "-c"))
    if request.param == "no flock":
        return LocalShell(env=without(tmp_path, "flock"))
    return LocalShell()


class Host:
    """A weights folder and what was told while fetching into it."""

    def __init__(self, folder: Path, shell: LocalShell, secrets: Path) -> None:
        self.folder = folder
        self.shell = shell
        self.secrets = Secrets(secrets)
        self.progress: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self.pauses: list[float] = []

    def fetch(self, *urls: str, **file: object) -> None:
        known = {"name": "model.gguf", "size": len(CONTENT), "sha256": SHA}
        operation = Fetch(
            id="1",
            deadline_s=60,
            weights_dir=str(self.folder),
            file=WeightFile(**{**known, "urls": urls, **file}),  # type: ignore[arg-type]
            via="host",
            stall_s=2,
        )
        fetch(
            self.shell,
            operation,
            self.secrets,
            lambda done, total: self.progress.append((done, total)),
            self.notes.append,
            self.pauses.append,
        )

    @property
    def blob(self) -> Path:
        return self.folder / "blobs" / SHA

    @property
    def partial(self) -> Path:
        return self.folder / "partial" / SHA


@pytest.fixture
def host(tmp_path: Path, shell: LocalShell) -> Host:
    return Host(tmp_path / "weights", shell, tmp_path)


def test_a_file_arrives_verified_and_readable_by_all(host: Host, server: FileServer) -> None:
    host.fetch(server.url)
    stat = host.blob.stat()
    assert host.blob.read_bytes() == CONTENT
    assert oct(stat.st_mode & 0o777) == "0o644"
    assert oct(host.folder.stat().st_mode & 0o777) == "0o755"
    meta = host.folder / "blobs" / f"{SHA}.meta"
    assert meta.read_text().split() == [str(stat.st_size), str(int(stat.st_mtime)), str(stat.st_ino)]
    assert host.progress[-1] == (len(CONTENT), len(CONTENT))
    assert list((host.folder / "partial").iterdir()) == []


def test_a_file_that_is_there_is_not_fetched_again(host: Host, server: FileServer) -> None:
    host.fetch(server.url)
    host.fetch(server.url)
    assert len(server.requests) == 1


def test_a_file_without_record_is_hashed_not_fetched(host: Host, server: FileServer) -> None:
    host.fetch(server.url)
    meta = host.folder / "blobs" / f"{SHA}.meta"
    meta.unlink()
    host.fetch(server.url)
    assert len(server.requests) == 1
    assert meta.exists()


def test_a_file_changed_on_disk_is_fetched_again(host: Host, server: FileServer) -> None:
    host.fetch(server.url)
    host.blob.write_bytes(CONTENT[:-1] + b"?")
    os.utime(host.blob, (1, 1))
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT


def test_a_cut_connection_is_resumed_where_it_ended(host: Host, server: FileServer) -> None:
    server.cut_after, server.cuts = 300_000, 2
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert [request.get("range") for request in server.requests] == [
        None,
        "bytes=300000-",
        "bytes=600000-",
    ]
    assert any("trying again" in note for note in host.notes)


def test_a_partial_of_an_earlier_run_is_used(host: Host, server: FileServer) -> None:
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT[:1000])
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert server.requests[0]["range"] == "bytes=1000-"


def test_a_complete_partial_is_only_hashed(host: Host, server: FileServer) -> None:
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT)
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert server.requests == []


def test_a_server_that_can_not_resume_starts_over(host: Host, server: FileServer) -> None:
    server.ranges = False
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(CONTENT[:1000])
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT


def test_a_damaged_partial_is_discarded_and_fetched_again(host: Host, server: FileServer) -> None:
    host.partial.parent.mkdir(parents=True)
    host.partial.write_bytes(b"x" * 1000)
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert any("wrong checksum" in note for note in host.notes)


def test_wrong_bytes_are_discarded_and_another_source_gives_the_file(host: Host, server: FileServer) -> None:
    with serving(b"y" * len(CONTENT)) as liar:
        host.fetch(liar.url, server.url)
    assert host.blob.read_bytes() == CONTENT


def test_wrong_bytes_that_an_earlier_source_left_are_not_held_against_the_next(
    host: Host, server: FileServer
) -> None:
    """A mirror with another version of the file breaks off: what it gave is only found out at the end."""
    with serving(b"y" * len(CONTENT)) as liar:
        liar.stall = threading.Event()
        host.fetch(liar.url, server.url)
    assert host.blob.read_bytes() == CONTENT
    assert [request.get("range") is None for request in server.requests] == [False, True]


def test_wrong_bytes_everywhere_is_an_error_that_names_the_sources(host: Host) -> None:
    with serving(b"y" * len(CONTENT)) as liar, pytest.raises(HubError) as error:
        host.fetch(liar.url)
    assert f"127.0.0.1:{liar.port}" in error.value.what
    assert len(liar.requests) == 2
    assert not host.blob.exists()
    assert not host.partial.exists()


def test_a_longer_file_is_another_file(host: Host, server: FileServer) -> None:
    server.content = CONTENT + b"more"
    with pytest.raises(HubError, match="not the file the plan names"):
        host.fetch(server.url)


def test_a_missing_file_is_asked_for_once_then_the_next_source(host: Host, server: FileServer) -> None:
    with serving(b"") as empty:
        empty.status = 404
        host.fetch(empty.url, server.url)
        assert len(empty.requests) == 1
    assert host.blob.read_bytes() == CONTENT


def test_a_busy_server_is_asked_five_times_with_growing_pauses(host: Host, server: FileServer) -> None:
    server.status = 503
    with pytest.raises(HubError, match="503"):
        host.fetch(server.url)
    assert len(server.requests) == 5
    assert host.pauses == sorted(host.pauses)


def test_a_stalled_source_is_given_up_for_the_next_with_what_arrived(host: Host, server: FileServer) -> None:
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        host.fetch(slow.url, server.url)
    assert host.blob.read_bytes() == CONTENT
    assert any("Operation too slow" in note for note in host.notes)


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
    assert "hf_secret" not in "".join(host.shell.scripts)


@pytest.mark.parametrize(
    ("prefix", "url", "sent"),
    [
        ("https://huggingface.co/", "https://huggingface.co/a/b", True),
        ("https://huggingface.co", "https://huggingface.co.evil.example/a", False),
        ("https://huggingface.co", "http://huggingface.co/a", False),
        ("https://hub.corp/models/", "https://hub.corp/other", False),
        ("", "https://huggingface.co/a", False),
    ],
)
def test_the_token_belongs_to_a_scheme_host_and_path(
    tmp_path: Path, prefix: str, url: str, sent: bool
) -> None:
    (tmp_path / "token").write_text("hf_secret")
    token = SecretRef(kind="from_file", name="token")
    file = WeightFile(name="f", size=1, sha256=SHA, urls=(url,), token=token, token_for=prefix)
    assert ("hf_secret" in curl_config(file, url, 60, Secrets(tmp_path))) is sent


def without(tmp_path: Path, *missing: str) -> dict[str, str]:
    """An environment with all that the scripts need but `missing`."""
    folder = tmp_path / "-".join(("without", *missing))
    folder.mkdir()
    for tool in (*COREUTILS, "curl", "flock"):
        if tool not in missing:
            (folder / tool).symlink_to(shutil.which(tool) or "")
    return {"PATH": str(folder)}


def test_a_host_without_curl_is_told_what_to_do(host: Host, server: FileServer, tmp_path: Path) -> None:
    host.shell.shell = ("/bin/sh", "-c")
    host.shell.env = without(tmp_path, "curl", "flock")
    with pytest.raises(HostError, match="no curl") as error:
        host.fetch(server.url)
    assert "install curl" in error.value.do


@pytest.mark.parametrize(
    ("version", "cookie", "trusted"),
    [
        ("7.57.0", "", False),
        ("7.58.0", "", True),
        ("7.63.0", "session", False),
        ("7.64.1-DEV", "session", True),
        ("8.5.0", "session", True),
    ],
)
def test_a_curl_that_would_pass_a_token_on_is_not_used(
    host: Host, server: FileServer, tmp_path: Path, version: str, cookie: str, trusted: bool
) -> None:
    curl = tmp_path / "bin" / "curl"
    curl.parent.mkdir()
    said = f'[ "$1" = --version ] && echo "curl {version} (x86_64)" && exit'
    curl.write_text(f'#!/bin/sh\n{said}\nexec {shutil.which("curl")} "$@"\n')
    curl.chmod(0o755)
    host.shell.env = {"PATH": f"{curl.parent}:{os.environ['PATH']}"}
    (tmp_path / "token").write_text("hf_secret")
    login = {"token": SecretRef(kind="from_file", name="token"), "token_cookie": cookie}
    if trusted:
        host.fetch(server.url, **login, token_for=server.url)
        assert host.blob.read_bytes() == CONTENT
        return
    with pytest.raises(HostError, match="would pass it on"):
        host.fetch(server.url, **login, token_for=server.url)
    assert server.requests == []


def test_a_full_disk_is_refused_before_a_byte_is_fetched(
    host: Host, server: FileServer, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        host.folder = small
        with pytest.raises(HostError, match="are free"):
            host.fetch(server.url)
        assert server.requests == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def _fetching(host: Host, url: str) -> subprocess.Popen[bytes]:
    """The script as a controller starts it, reading along not yet begun."""
    file = WeightFile(name="model.gguf", size=len(CONTENT), sha256=SHA, urls=(url,))
    args = {"dir": str(host.folder), "sha": SHA, "size": str(len(CONTENT)), "state": "/var/lib/cpudeploy"}
    process = host.shell.start(script("fetch"), {**args, "patience": "15", "stall": "60"})
    assert process.stdin
    process.stdin.write(curl_config(file, url, 30, host.secrets).encode())
    process.stdin.close()
    return process


def test_a_download_whose_controller_is_gone_ends_and_the_next_resumes_it(
    host: Host, server: FileServer, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        orphan = _fetching(host, slow.url)
        wait_for(lambda: host.partial.exists() and host.partial.stat().st_size > 0)
        assert orphan.stdout
        orphan.stdout.close()
        orphan.wait()
        host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT
    assert "range" in server.requests[0]


def test_a_killed_download_leaves_a_lock_that_binds_nobody(
    host: Host, server: FileServer, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        orphan = _fetching(host, slow.url)
        wait_for(lambda: host.partial.exists() and host.partial.stat().st_size > 0)
        orphan.kill()
        orphan.wait()
    host.fetch(server.url)
    assert host.blob.read_bytes() == CONTENT


def test_several_that_find_a_killed_download_do_not_write_at_the_same_time(
    host: Host, tmp_path: Path, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        orphan = _fetching(host, slow.url)
        wait_for(lambda: host.partial.exists() and host.partial.stat().st_size > 0)
        orphan.kill()
        orphan.wait()
    programs = tmp_path / "programs"
    programs.mkdir()
    # Each call is later than the one before: what one has found may be another's when it acts on it.
    for tool in ("mv", "flock") if shutil.which("flock", path=host.shell.env["PATH"]) else ("mv",):
        late = programs / tool
        late.write_text(f"""#!/bin/sh
echo >>"$0.calls"
sleep "0.$(/usr/bin/wc -l <"$0.calls")"
exec {shutil.which(tool)} "$@"
""")
        late.chmod(0o755)
    host.shell.env = {"PATH": f"{programs}:{host.shell.env['PATH']}"}
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        several = [_fetching(host, slow.url) for _ in range(5)]
        for each in several:
            assert each.stdout and each.stdout.readline().startswith(b"have ")
        wait_for(lambda: slow.requests != [])
        assert len(slow.requests) == 1
        for each in several:
            assert each.stdout
            each.stdout.close()
            each.wait()


def test_a_download_that_goes_on_elsewhere_is_waited_for(
    host: Host, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    with serving(CONTENT) as slow:
        slow.stall = threading.Event()
        other = _fetching(host, slow.url)
        wait_for(lambda: host.partial.exists() and host.partial.stat().st_size > 0)
        with pytest.raises(OperationFailed, match="is downloading it"):
            host.fetch(slow.url)
        assert other.stdout
        other.stdout.close()
        other.wait()
