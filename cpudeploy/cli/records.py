"""Facts and what was resolved, as files: written by `facts -o`, read by `plan --facts`.

In: a folder. `<host>.json` is a host's facts, `resolved.json` what registries and Hubs said. Neither holds a
secret. Files are written whole or not at all; what can't be understood is one error with the file's name.
"""

from __future__ import annotations

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
from .documents import read_bounded, refuse_newer, write_whole

T = TypeVar("T", Facts, Records)
_RESOLVED = "resolved.json"
_MOST_BYTES = 64 << 20
"""A record of a host with hundreds of containers has a few hundred KiB."""


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
    write_whole(path, text, mode=0o644, wrong=RecordError, do="choose another folder")


def _read(path: Path, kind: type[T]) -> T | None:
    again = f"remove it and record again: cpudeploy facts -o {path.parent}"
    try:
        data: Any = msgspec.json.decode(
            read_bounded(path, _MOST_BYTES, wrong=RecordError, what="record", do="record it again")
        )
        refuse_newer(
            path,
            data,
            kind.__struct_defaults__[0],
            wrong=RecordError,
            do="use that version, or record it again with this one",
        )
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
