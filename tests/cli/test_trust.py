"""`cpudeploy trust` with real sshds: what is shown, what is recorded where, and what never is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.resolve.registries import free_port
from tests.transport.conftest import Sshd, new_key, public, sh, start_sshd

from .test_commands import ROOT, cpudeploy


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "ssh" / "known_hosts"


@pytest.fixture
def config(tmp_path: Path, sshd: Sshd, known: Path) -> Path:
    """An ssh configuration that knows no host, and may log in to `sshd`."""
    file = tmp_path / "config"
    file.write_text(
        f"Host *\n UserKnownHostsFile {known}\n GlobalKnownHostsFile none\n IdentityFile {sshd.key}\n"
        " IdentitiesOnly yes\n User root\n"
    )
    return file


@pytest.fixture
def inner(sshd: Sshd, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Another sshd with another key."""
    key = new_key(tmp_path / "inner_key")
    process, port = start_sshd(sshd.folder, host_key=key)
    yield port, key
    process.terminate()
    process.wait()


def write(folder: Path, hosts: dict[str, Any]) -> None:
    manifest = {
        "version": 1,
        "name": "rag",
        "defaults": {"ssh": {"config": str(folder / "config")}},
        "hosts": hosts,
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {},
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))


def at(port: int) -> dict[str, Any]:
    return {"address": "127.0.0.1", "ssh": {"port": port}}


def as_ssh_keygen_says(key: Path) -> str:
    return sh("ssh-keygen", "-l", "-f", key.with_name(key.name + ".pub")).split()[1]


def on_a_terminal(*arguments: str, cwd: Path, answer: str) -> tuple[int, str]:
    """A command on a terminal where somebody types `answer`."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cpudeploy", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.write(ours, answer.encode())
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    return process.returncode, out


def test_a_new_key_is_shown_as_ssh_keygen_does_and_recorded_when_somebody_says_so(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path
) -> None:
    write(tmp_path, {"h1": at(sshd.port)})
    code, told = on_a_terminal("trust", cwd=tmp_path, answer="n\n")
    assert (code, known.exists()) == (1, False)
    assert as_ssh_keygen_says(sshd.folder / "host_key") in told
    code, told = on_a_terminal("trust", "h1", cwd=tmp_path, answer="y\n")
    assert (code, f"recorded in {known}" in told) == (0, True)
    assert sh("ssh", "-F", config, "-o", "BatchMode=yes", "-p", sshd.port, "127.0.0.1", "echo in") == "in\n"
    assert cpudeploy("trust", cwd=tmp_path).stdout == "h1: known\n"


def test_without_a_terminal_nothing_is_asked_nor_recorded(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path
) -> None:
    write(tmp_path, {"h1": at(sshd.port)})
    done = cpudeploy("trust", cwd=tmp_path)
    assert (done.returncode, known.exists()) == (64, False)
    assert as_ssh_keygen_says(sshd.folder / "host_key") in done.stdout
    assert "--yes" in done.stderr


def test_the_name_is_hashed_where_ssh_would(tmp_path: Path, sshd: Sshd, config: Path, known: Path) -> None:
    config.write_text(config.read_text() + " HashKnownHosts yes\n")
    write(tmp_path, {"h1": at(sshd.port)})
    assert cpudeploy("trust", "--yes", cwd=tmp_path).returncode == 0
    assert "127.0.0.1" not in known.read_text()
    assert public(sshd.folder / "host_key").split()[1] in sh(
        "ssh-keygen", "-F", f"[127.0.0.1]:{sshd.port}", "-f", known
    )


def test_a_changed_key_names_its_line_and_is_never_written_over(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path
) -> None:
    kind, blob = public(new_key(tmp_path / "other")).split()[:2]
    known.parent.mkdir()
    known.write_text(f"# ours\n[127.0.0.1]:{sshd.port} {kind} {blob}\n")
    before = known.read_text()
    write(tmp_path, {"h1": at(sshd.port)})
    done = cpudeploy("trust", "--yes", cwd=tmp_path)
    assert done.returncode == 4
    assert f"{known}:2" in done.stderr and "ssh-keygen -f" in done.stderr
    assert known.read_text() == before


def test_hosts_behind_a_jump_are_known_after_the_jump_is(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path, inner: tuple[int, Path]
) -> None:
    port, key = inner
    names = "".join(
        f"Host {name}\n HostName 127.0.0.1\n Port {port}\n HostKeyAlias {name}\n"
        f" ProxyJump 127.0.0.1:{sshd.port}\n"
        for name in ("deep1", "deep2")
    )
    config.write_text(names + config.read_text())
    write(tmp_path, {name: {"address": name} for name in ("deep1", "deep2")})
    done = cpudeploy("trust", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in known.read_text().splitlines()] == [
        f"[127.0.0.1]:{sshd.port}",
        "deep1",
        "deep2",
    ]
    assert done.stdout.count(as_ssh_keygen_says(sshd.folder / "host_key")) == 1
    assert done.stdout.count(as_ssh_keygen_says(key)) == 2
    assert sh("ssh", "-F", config, "-o", "BatchMode=yes", "deep1", "echo in") == "in\n"


def test_one_host_that_is_away_keeps_no_other_from_being_trusted(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path
) -> None:
    write(tmp_path, {"away": at(free_port()), "h1": at(sshd.port), "here": {"connection": "local"}})
    done = cpudeploy("trust", "--yes", cwd=tmp_path)
    assert (done.returncode, "away: unreachable" in done.stderr) == (4, True)
    assert known.read_text().startswith(f"[127.0.0.1]:{sshd.port} ")
    assert "here: local" in done.stdout


def test_where_no_file_keeps_keys_that_is_told_of_every_host(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path
) -> None:
    config.write_text(config.read_text().replace(str(known), "/dev/null") + " HostKeyAlias both\n")
    write(tmp_path, {"h1": at(sshd.port), "h2": {**at(sshd.port), "address": "localhost"}})
    done = cpudeploy("trust", "--yes", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("UserKnownHostsFile")) == (4, 2)
    code, told = on_a_terminal("trust", cwd=tmp_path, answer="")
    assert (code, told.count("UserKnownHostsFile")) == (4, 2)


def test_a_host_that_is_not_in_the_manifest_is_a_usage_error(
    tmp_path: Path, sshd: Sshd, config: Path
) -> None:
    write(tmp_path, {"h1": at(sshd.port)})
    done = cpudeploy("trust", "h2", cwd=tmp_path)
    assert (done.returncode, "choose from h1" in done.stderr) == (64, True)


def test_hosts_that_share_a_name_and_not_a_file_are_each_recorded(
    tmp_path: Path, sshd: Sshd, config: Path, known: Path
) -> None:
    own = tmp_path / "own"
    config.write_text(f"Host localhost\n UserKnownHostsFile {own}\n{config.read_text()} HostKeyAlias both\n")
    write(tmp_path, {"h1": at(sshd.port), "h2": {**at(sshd.port), "address": "localhost"}})
    done = cpudeploy("trust", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [file.read_text().split()[0] for file in (known, own)] == ["both", "both"]
    assert {"h1: known", "h2: known"} <= set(done.stdout.splitlines())


def test_a_key_that_stays_unknown_is_told(tmp_path: Path, sshd: Sshd, config: Path, known: Path) -> None:
    """The file takes what is written, and shows nothing of it."""
    known.parent.mkdir()
    known.symlink_to(os.devnull)
    write(tmp_path, {"h1": at(sshd.port)})
    done = cpudeploy("trust", "--yes", cwd=tmp_path)
    assert (done.returncode, "h1: unreachable" in done.stderr) == (4, True)
