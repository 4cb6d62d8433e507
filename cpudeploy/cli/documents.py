"""JSON documents of ours in files that people keep: read with care, written whole or not at all.

In: a path, and for reading the kind of document. Out: its data. Every way a file can be wrong is one error
of the caller's class, with the file's name and what to do.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

from ..errors import CpudeployError

Wrong = type[CpudeployError]
_SCHEMA = re.compile(r"(cpudeploy\.[a-z]+)/([0-9]{1,6})")


def write_whole(path: Path, text: str, *, mode: int, wrong: Wrong, do: str) -> None:
    """`text` and a line end into `path`: another file takes its place once all of it is on the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            written = Path(file.name)
            try:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
                written.chmod(mode)
                written.replace(path)
            except BaseException:
                written.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise wrong(f"can't be written: {error.strerror or error}", where=str(path), do=do) from None


def read_bounded(path: Path, most: int, *, wrong: Wrong, what: str, do: str) -> bytes:
    """A file's content. Raises OSError; `wrong` for what would wait for a writer, never ends, or has more
    than `most` bytes, as no `what` has."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise wrong("is not a file", where=str(path), do=do)
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise wrong(f"is larger than {most >> 20} MiB, as no {what} is", where=str(path), do=do)
    return data


def refuse_newer(path: Path, data: Any, ours: str, *, wrong: Wrong, do: str) -> None:
    """Raises `wrong` for a document of this kind that a newer version of ours has written."""
    told = _SCHEMA.fullmatch(str(data.get("schema"))) if isinstance(data, dict) else None
    known = _SCHEMA.fullmatch(ours)
    if told and known and told[1] == known[1] and int(told[2]) > int(known[2]):
        raise wrong(
            f"was written by a newer cpudeploy ({told[0]}; this one reads {ours})", where=str(path), do=do
        )
