"""What can never change, kept on the controller's disk: headers and checksums by content.

Only immutable facts belong here: keys contain a sha256, a blob id, or all that tells a local file from
another. A cache that can't be read or written is slower, never an error; a damaged entry is as if
it were not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec

from ..types.base import from_json, to_json

T = TypeVar("T")


class Cache:
    """Entries as JSON files below `folder`; without a folder nothing is remembered."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, kind: str, key: str, type_: type[T]) -> T | None:
        """The value put under `key`, or None."""
        path = self._path(kind, key)
        if path is None:
            return None
        try:
            return from_json(path.read_bytes(), type_)
        except (OSError, msgspec.MsgspecError):
            return None

    def put(self, kind: str, key: str, value: object) -> None:
        """Remember `value`; replaces a damaged entry in one step, so readers see the old or the new."""
        path = self._path(kind, key)
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(to_json(value))
                Path(aside).replace(path)
            except OSError:
                Path(aside).unlink(missing_ok=True)
                raise

    def _path(self, kind: str, key: str) -> Path | None:
        # Keys hold names a Hub chose; hashed, they are always safe file names.
        return self._folder and self._folder / kind / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
