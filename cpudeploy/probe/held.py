"""What we left on the host, and answers to questions: records, weights, files, disks, packages. Pure."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

from ..types.base import Unknown, from_json
from ..types.facts import Blob, Disk, File, Weights
from ..types.shared import HostRecord
from .records import Record, Records

_DISK = re.compile(r"\s(\d{1,20})\s+\d+\s+(-?\d{1,20})\s+\S+\s+(/.*)$", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NUMBER = re.compile(r"[0-9]{1,20}")
# Size, mode, owner (of a directory service perhaps, with blanks), checksum, content.
_FILE = re.compile(r"([0-9]{1,20}) ([0-7]{1,5}) (.*) ([0-9a-f]{64}|-|)(?: =(\S*))?")


def read_releases(records: Records) -> dict[str, dict[str, Any]]:
    """Deployment → release id → document. One that can't be read stands as its reason."""
    found: dict[str, dict[str, Any]] = {}
    for path, record in records.below("release:").items():
        deployment, _, name = path.split("/", 2)
        found.setdefault(deployment, {})[name.removesuffix(".json")] = _json(record)
    return found


def read_host_record(records: Records) -> HostRecord | Unknown:
    record = records.get("host-record")
    if record is None:
        return HostRecord()
    if record.code != 0:
        return Unknown(unknown=record.text.strip())
    try:
        return from_json(record.text, HostRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        return Unknown(unknown=f"host.json is not a host record: {error}")


def read_weights(records: Records) -> Weights:
    marks = {}
    for line in records.lines("weights-meta"):
        name, _, mark = line.partition(" ")
        marks[name.removesuffix(".meta")] = mark.split()
    blobs = {}
    for words in _stat_lines(records, "weights-blobs", 3):
        size, _, inode, path = words
        name = path.removeprefix("blobs/")
        if _SHA256.match(name):
            blobs[name] = Blob(size=int(size), inode=int(inode), verified=marks.get(name) == words[:3])
    partial = {
        path.removeprefix("partial/"): int(size)
        for size, path in _stat_lines(records, "weights-partial", 1)
        if _SHA256.match(path.removeprefix("partial/"))
    }
    trees: dict[str, dict[str, int]] = {}
    for inode, kind_and_path in _stat_lines(records, "weights-trees", 1):
        kind, _, path = kind_and_path.partition("/")
        _, tree, file = [*path.split("/", 2), "", ""][:3]
        if kind.startswith("regular") and file:
            trees.setdefault(tree, {})[file] = int(inode)
    refs, claims = _words(records, "weights-ref:"), _words(records, "weights-claim:")
    return Weights(blobs=blobs, trees=trees, partial=partial, refs=refs, claims=claims)


def _words(records: Records, prefix: str) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(record.text.split()) for name, record in records.below(prefix).items() if record.code == 0
    }


def read_files(records: Records) -> dict[str, File | Unknown | None]:
    return {path: _file(record) for path, record in records.below("file:").items()}


def read_disks(records: Records) -> dict[str, Disk | Unknown]:
    return {folder: _disk(record) for folder, record in records.below("disk:").items()}


def read_packages(records: Records) -> dict[str, str | None]:
    """`installed:X`, `candidate:X`, or None where the package manager knows none."""
    found: dict[str, str | None] = dict.fromkeys(records.text("packages-asked").split())
    name = ""
    for line in records.lines("packages-apt"):
        if not line.startswith(" "):
            name = line.rstrip(":")
        elif name in found and line.strip().startswith("Candidate:"):
            version = line.partition(":")[2].strip()
            found[name] = None if version in ("", "(none)") else f"candidate:{version}"
    for line in records.lines("packages-dpkg"):
        words = line.split()
        if len(words) == 3 and words[0] == "ii":
            found[words[1].partition(":")[0]] = f"installed:{words[2]}"
    for line in records.lines("packages-rpm"):
        words = line.split()
        if len(words) == 2 and words[0] in found:
            found[words[0]] = f"installed:{words[1]}"
    return found


def _json(record: Record) -> Any:
    if record.code != 0:
        return {"unknown": record.text.strip()}
    try:
        return msgspec.json.decode(record.text)
    except (ValueError, RecursionError):
        return {"unknown": "not JSON"}


def _stat_lines(records: Records, key: str, numbers: int) -> list[list[str]]:
    """Lines of `numbers` numbers and a name; complaints about patterns that matched nothing are skipped."""
    record = records.get(key)
    rows = [] if record is None else [line.split(" ", numbers) for line in record.text.splitlines()]
    return [row for row in rows if len(row) == numbers + 1 and all(map(_NUMBER.fullmatch, row[:numbers]))]


def _file(record: Record) -> File | Unknown | None:
    if record.code == 2:
        return None
    match = _FILE.fullmatch(record.text.strip()) if record.code == 0 else None
    if match is None:
        return Unknown(unknown=record.text.strip() or "can't be read")
    size, mode, owner, digest, content = match.groups()
    try:
        text = None if content is None else base64.b64decode(content).decode(errors="replace")
    except ValueError:
        return Unknown(unknown="its content came back damaged")
    return File(
        size=int(size),
        mode=mode.zfill(4),
        owner=owner,
        sha256=digest
        if _SHA256.match(digest)
        else Unknown(unknown="not hashed: too large, or no plain file"),
        text=text,
    )


def _disk(record: Record) -> Disk | Unknown:
    lines = record.text.splitlines()
    match = _DISK.search(lines[-1]) if record.code == 0 and lines else None
    if match is None:
        return Unknown(unknown=record.text.strip() or "df gave nothing")
    return Disk(mount=match[3], total=int(match[1]) * 1024, free=max(0, int(match[2])) * 1024)
