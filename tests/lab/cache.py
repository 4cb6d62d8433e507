"""The artifact cache: files and folders that are expensive to make, kept outside the checkout.

In: a name, a key (whatever the artifact depends on) and a function that makes it. Out: its path.
An artifact is made aside and renamed into place, so what exists under its name is whole; a lock per
artifact lets parallel runs wait for one build instead of building twice. Never holds run-time state.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.shell import step


def root() -> Path:
    """The cache folder of this user; the environment may move it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base).absolute() / "cpudeploy-lab"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key_of(*parts: object) -> str:
    """A short key of everything an artifact depends on."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:12]


def sha256_of(path: Path) -> str:
    """The sha256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the named lock, between processes and threads; the kernel frees it when its holder dies."""
    folder = root() / "locks"
    folder.mkdir(exist_ok=True)
    with (folder / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def artifact(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The artifact `name` for this key, made by `make(path)` if it is not there.

    `make` gets a path that does not exist and leaves a file or folder there.
    """
    folder = root() / "artifacts"
    final = folder / f"{name}-{key}"
    if final.exists():
        return final
    with lock(name):
        if final.exists():
            return final
        aside = root() / "building" / f"{name}-{key}"
        _remove(aside)
        aside.parent.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        with step(f"build {name}"):
            make(aside)
        os.sync()
        aside.rename(final)
    return final


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """An empty folder beside the artifacts (same file system), removed at the end or by the next user."""
    with lock(f"scratch-{name}"):
        folder = root() / "building" / f"{name}.scratch"
        _remove(folder)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            _remove(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
