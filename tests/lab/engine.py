"""The outer container engine: a dockerd of the lab's own, started by hand and stopped by its pid.

In: nothing but the cache folder. Out: a running dockerd on a socket of its own, shared by all labs of this
cache. Its data root lives in the cache, so imported images are there the next time. Must never touch
another engine of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab import cache, packages
from tests.lab.shell import LabError, run, say, step, tail, wait_until

# every lab's network is inside; its registries may speak plain HTTP or have the lab's own certificate
ADDRESSES = "10.77.0.0/16"


def folder() -> Path:
    """Socket, pid file, log and run-time state of the engine."""
    return cache.root() / "engine"


def socket() -> Path:
    """The engine's API socket."""
    return folder() / "docker.sock"


def running() -> bool:
    """Whether the engine answers."""
    return _pid() is not None and run(_docker("version"), check=False).returncode == 0


def docker(
    *words: str | Path, stdin: str | bytes | None = None, check: bool = True, config: Path | None = None
) -> str:
    """Run the docker client against the lab's engine; its standard output."""
    extra: list[str | Path] = ["--config", config] if config else []
    return run([*_docker(), *extra, *words], stdin=stdin, check=check).stdout


def exec_in(
    container: str, argv: Sequence[str], *, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command inside a container, whatever its exit code."""
    interactive = ["-i"] if stdin is not None else []
    return run(_docker("exec", *interactive, container, *argv), stdin=stdin, check=False)


def start() -> None:
    """Start the engine if it isn't running."""
    with cache.lock("engine"):
        if running():
            return
        _stop()
        with step("start the engine"):
            _start()


def stop() -> None:
    """Stop the engine and the containers it runs."""
    with cache.lock("engine"):
        _stop()


@contextmanager
def held() -> Iterator[None]:
    """Have the engine running inside; stop it after, unless a lab or another holder needs it."""
    users = cache.root() / "run"
    users.mkdir(exist_ok=True)
    mine = users / f".holder-{os.getpid()}-{secrets.token_hex(4)}"
    with cache.lock("engine-users"):
        mine.touch()
        start()
    try:
        yield
    finally:
        with cache.lock("engine-users"):
            mine.unlink(missing_ok=True)
            others = [entry for entry in users.iterdir() if _is_user(entry)]
            if not others:
                stop()


def _is_user(entry: Path) -> bool:
    """Whether a lab's state folder, or the mark of a holder that lives; a dead one's mark is removed."""
    if entry.name.startswith(".holder-") and not Path("/proc", entry.name.split("-")[1]).exists():
        entry.unlink(missing_ok=True)
        return False
    return True


def image_key(image: str) -> str | None:
    """The lab's label of an image; None where there is no such image."""
    found = run(_docker("image", "inspect", image), check=False)
    if found.returncode != 0:
        return None
    labels = json.loads(found.stdout)[0]["Config"].get("Labels") or {}
    return str(labels.get("cpudeploy.lab.key", ""))


def import_image(rootfs: Path, image: str, key: str, changes: Sequence[str]) -> None:
    """Import a root file system as an image, unless the engine has it already."""
    if image_key(image) == key:
        return
    with cache.lock("import"), step(f"import {image}"):
        words = [word for change in (*changes, f"LABEL cpudeploy.lab.key={key}") for word in ("-c", change)]
        docker("import", *words, rootfs, image)
        docker("image", "prune", "--force", "--filter", "label=cpudeploy.lab.key")  # the one it replaces


def derive(image: str, new: str, *changes: str) -> None:
    """Make an image of the same content with other settings, such as `LABEL a=b`."""
    container = docker("create", image, "unused").strip()
    try:
        docker("commit", *(word for change in changes for word in ("--change", change)), container, new)
    finally:
        docker("rm", container)


def _docker(*words: str | Path) -> list[str | Path]:
    return ["docker", "--host", f"unix://{socket()}", *words]


def _pid() -> int | None:
    """The pid of our dockerd, if it lives: a pid file outlives a crash, and pids are used again."""
    try:
        pid = int((folder() / "dockerd.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if str(socket()).encode() in command else None


def _start() -> None:
    packages.install_missing()
    place = folder()
    place.mkdir(exist_ok=True)
    if len(str(socket())) > 100:
        raise LabError(f"{socket()}: too long for a socket; set XDG_CACHE_HOME to a shorter path")
    # a leftover of a crash makes dockerd take an unrelated process for itself
    (place / "dockerd.pid").unlink(missing_ok=True)
    shutil.rmtree(place / "exec", ignore_errors=True)
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    log = place / "dockerd.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                "dockerd",
                f"--host=unix://{socket()}",
                f"--data-root={cache.root() / 'docker'}",
                f"--exec-root={place / 'exec'}",
                f"--pidfile={place / 'dockerd.pid'}",
                f"--insecure-registry={ADDRESSES}",
                "--bridge=none",
                "--exec-opt=native.cgroupdriver=cgroupfs",
                "--log-level=warn",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PATH": path},
            start_new_session=True,
        )

    def up() -> bool:
        if process.poll() is not None:
            raise LabError(f"dockerd ended with {process.returncode}:\n{tail(log.read_text())}")
        return running()

    wait_until("dockerd", up, 60)


def _stop() -> None:
    pid = _pid()
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 60
    while _pid() is not None:
        if time.monotonic() > end:
            say(f"dockerd ({pid}) does not end; killing it")
            os.kill(pid, signal.SIGKILL)
            return
        with contextlib.suppress(ChildProcessError):  # reap it when it is our child
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.1)
