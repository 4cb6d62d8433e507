"""Facts and what was resolved, as files: written by `facts -o`, read by `plan --facts`.

In: a folder. `<host>.json` is a host's facts, `resolved.json` what registries and Hubs said. Neither holds a
secret. Files are written whole or not at all; what can't be understood is one error with the file's name.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import RecordError, UsageError
from ..report.facts_text import facts_data
from ..report.json_text import json_document
from ..types.base import from_data
from ..types.facts import Facts
from ..types.records import Records
from .believing import Contradiction, check_facts

T = TypeVar("T", Facts, Records)
_RESOLVED = "resolved.json"
_MOST_BYTES = 64 << 20
"""A record of a host with hundreds of containers has a few hundred KiB."""
_SCHEMA = re.compile(r"(cpudeploy\.[a-z]+)/([0-9]{1,6})")


def write_facts(folder: Path, facts: Iterable[Facts]) -> list[Path]:
    """A file a host; those of other hosts stay. Returns what was written, in order."""
    written = []
    for each in facts:
        path = _facts_path(folder, each.host)
        _write(path, json_document(facts_data(each)))
        written.append(path)
    return written


def write_records(folder: Path, records: Records) -> Path:
    """What was resolved, beside what the folder has of other things."""
    path = folder / _RESOLVED
    _write(path, json_document(read_records(folder).with_newer(records)))
    return path


def read_facts(folder: Path, host: str) -> Facts | None:
    """A host's recorded facts, None without a record. Raises RecordError."""
    path = _facts_path(folder, host)
    facts = _read(path, Facts)
    if facts is not None and facts.host != host:
        raise RecordError(
            f"it holds the facts of host {facts.host}, not of {host}",
            where=str(path),
            do=f"record them again: cpudeploy facts -o {folder}",
        )
    return facts


def read_records(folder: Path) -> Records:
    """What the folder has of registries and Hubs; nothing where it has no such file. Raises RecordError."""
    return _read(folder / _RESOLVED, Records) or Records()


def _facts_path(folder: Path, host: str) -> Path:
    path = folder / f"{host}.json"
    if path.name == _RESOLVED:
        raise UsageError(f"{_RESOLVED} is for what registries said", do="give the host another name")
    return path


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            written = Path(file.name)
            try:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
                written.chmod(0o644)
                written.replace(path)
            except BaseException:
                written.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise RecordError(
            f"can't be written: {error.strerror or error}", where=str(path), do="choose another folder"
        ) from None


def _read(path: Path, kind: type[T]) -> T | None:
    again = f"remove it and record again: cpudeploy facts -o {path.parent}"
    try:
        data: Any = msgspec.json.decode(_bytes(path))
        _refuse_newer(path, data, kind.__struct_defaults__[0])
        record = from_data(data, kind)
        if isinstance(record, Facts):
            check_facts(record)
        return record
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"can't be read: {error.strerror or error}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        # JSON and text that is none raise ValueError; those that name the part that does not fit are shown.
        told = isinstance(error, (msgspec.ValidationError, Contradiction))
        detail = f": {str(error)[:200]}" if told else ""
        raise RecordError(f"is damaged{detail}", where=str(path), do=again) from None


def _bytes(path: Path) -> bytes:
    """A file's content. Raises OSError; RecordError for what would wait for a writer, or never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise RecordError("is not a file", where=str(path), do="record facts in a folder of their own")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise RecordError(
            f"is larger than {_MOST_BYTES >> 20} MiB, as no record is", where=str(path), do="record it again"
        )
    return data


def _refuse_newer(path: Path, data: Any, ours: str) -> None:
    """Raises RecordError for a document of this kind that a newer version of ours has written."""
    told = _SCHEMA.fullmatch(str(data.get("schema"))) if isinstance(data, dict) else None
    known = _SCHEMA.fullmatch(ours)
    if told and known and told[1] == known[1] and int(told[2]) > int(known[2]):
        raise RecordError(
            f"was written by a newer cpudeploy ({told[0]}; this one reads {ours})",
            where=str(path),
            do="use that version, or record it again with this one",
        )
