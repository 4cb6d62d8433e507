"""What lscpu prints, as numbers: summaries of any age and language, `-p` and `-e` tables, JSON. Pure.

It reads the kernel's own files, so it is asked only where we found too little there ourselves. A summary
counts; only the tables say which processors share a core.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .cpulist import cpu_list, whole
from .lscpu_labels import LABELS

_FIELDS = {label: name for name, labels in LABELS.items() for label in labels}
_COLON = re.compile("[:：︰]")
_NODE = re.compile(r"(?<!\d)(\d+)(?!\d)")
_KIND_FIELDS = frozenset({"model", "threads", "cores", "cluster_cores", "sockets", "flags", "mhz"})


@dataclass
class Kind:
    """One type of processor of a machine. None: not printed, or printed as `-`."""

    model: str = ""
    threads: int | None = None
    cores: int | None = None
    sockets: int | None = None
    mhz: int | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """An on-line processor of a table. socket, node -1 and mhz 0: not told."""

    cpu: int
    core: int
    socket: int
    node: int
    mhz: int


@dataclass
class Lscpu:
    """What a text told. `cpus` counts what the machine has, off-line ones with them; ids have holes."""

    arch: str = ""
    cpus: int | None = None
    online: frozenset[int] | None = None
    offline: frozenset[int] = frozenset()
    kinds: list[Kind] = field(default_factory=list)
    books: int = 1
    nodes: dict[int, frozenset[int]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def on(self) -> frozenset[int]:
        """On-line processors; empty where only their number is told."""
        if self.online is not None:
            return self.online
        if self.rows:
            return frozenset(row.cpu for row in self.rows)
        listed = frozenset[int]().union(*self.nodes.values())
        # Nodes list what may come, too; a list that is no longer than the count is of what is there.
        return listed - self.offline if self.cpus in (None, len(listed)) else frozenset()

    @property
    def online_count(self) -> int | None:
        """How many are on-line, where their numbers are not told."""
        return len(self.on) or (self.cpus - len(self.offline) if self.cpus else None)

    @property
    def sockets(self) -> int | None:
        """Packages that hold an on-line processor; None also where summary and table disagree."""
        # Each type counts the same packages again.
        counted = max((kind.sockets or 0 for kind in self.kinds), default=0) * self.books
        listed = {row.socket for row in self.rows}
        if not listed or -1 in listed:
            return counted or None
        return len(listed) if counted in (0, len(listed)) else None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(kind.model for kind in self.kinds if kind.model))

    @property
    def flags(self) -> tuple[tuple[str, ...], ...]:
        """Instruction sets of each type that tells them."""
        return tuple(kind.flags for kind in self.kinds if kind.flags)

    @property
    def one_thread_a_core(self) -> bool:
        return bool(self.kinds) and all(kind.threads == 1 for kind in self.kinds)


def parse_lscpu(text: str) -> Lscpu:
    """Reads what it knows and passes over the rest; never raises."""
    found = Lscpu()
    per_book, per_drawer, books, drawers = 0, 0, 0, 0
    for label, value in _pairs(text):
        if "numa" in label:
            _read_node(found, label, value)
            continue
        name = _FIELDS.get(label)
        number = _number(value)
        if name in _KIND_FIELDS:
            if not found.kinds or (name == "model" and found.kinds[-1].model):
                found.kinds.append(Kind())
            _read_kind(found.kinds[-1], name, value, number)
        elif name == "arch":
            found.arch = value
        elif name == "cpus":
            found.cpus = number if found.cpus is None else found.cpus
        elif name == "online":
            found.online = cpu_list(value) or None
        elif name == "offline":
            found.offline = cpu_list(value)
        elif name == "book_sockets":
            per_book = number or 0
        elif name == "drawer_books":
            per_drawer = number or 0
        elif name == "books":
            books = number or 0
        elif name == "drawers":
            drawers = number or 0
    if per_book and found.kinds:
        # Mainframes stack sockets in books and books in drawers.
        found.books = books or max(1, per_drawer) * max(1, drawers)
        for kind in found.kinds:
            kind.sockets = per_book
    found.rows = _rows(text)
    if found.online is None and found.rows:
        found.online = frozenset(row.cpu for row in found.rows)
    return found


def _read_kind(kind: Kind, name: str | None, value: str, number: int | None) -> None:
    if name == "model":
        kind.model = "" if value == "-" else value
    elif name == "threads":
        kind.threads = number
    elif name in ("cores", "cluster_cores"):
        kind.cores = number
    elif name == "sockets":
        kind.sockets = number
    elif name == "mhz":
        kind.mhz = number
    elif name == "flags":
        kind.flags = tuple(value.replace("_", " ").split() if value.startswith("rv") else value.split())


def _read_node(found: Lscpu, label: str, value: str) -> None:
    """`NUMA node8 CPU(s)` lists, empty for a node of memory only; `NUMA node(s)` only counts."""
    match = _NODE.search(label)
    number = whole(match[1]) if match else None
    if number is not None:
        found.nodes[number] = cpu_list(value)


def _number(value: str) -> int | None:
    """The leading whole number, None of `-` and of nothing."""
    match = re.match(r"\d+", value)
    return whole(match[0]) or None if match else None


# ---- Lines ------------------------------------------------------------------------------------------


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """(label, value) of every line, values that go on below put together."""
    if text.lstrip().startswith("{"):
        yield from _json_pairs(text)
        return
    label, column, parts = "", 0, [""]
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if label and column and line.strip() and indent >= column:
            parts.append(line[column:])
            continue
        colon = _COLON.search(line)
        if colon is None:
            continue
        if label:
            yield label, _joined(parts)
        label = _plain(line[: colon.start()])
        value = line[colon.end() :].lstrip()
        # The column as a terminal counts: some characters are two wide, and those that go on below are not.
        column = _width(line[: len(line) - len(value)]) if value else 0
        parts = [value]
    if label:
        yield label, _joined(parts)


def _json_pairs(text: str) -> Iterator[tuple[str, str]]:
    try:
        waiting: list[Any] = [json.JSONDecoder().raw_decode(text.lstrip())[0]]
    except ValueError:
        return
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, dict):
            if isinstance(item.get("field"), str):
                yield _plain(_COLON.sub("", item["field"])), str(item.get("data") or "").strip()
            waiting = [each for each in item.values() if isinstance(each, list)] + waiting
        elif isinstance(item, list):
            waiting = item + waiting


def _plain(label: str) -> str:
    """As in the table; marks of a quotation are no part of it."""
    return " ".join(label.replace("\xa0", " ").split()).strip("> |*").casefold()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _joined(parts: list[str]) -> str:
    """A value from its lines. A terminal cuts at its width, through words; people cut between them.

    Cut by a terminal, all lines but the last are as long; one that is shorter ended with a blank.
    """
    full = max(len(part) for part in parts[:-1]) if len(parts) > 1 else 0
    by_width = all(full - len(part) <= 1 for part in parts[:-1])
    text = parts[0]
    for before, part in itertools.pairwise(parts):
        text += part if by_width and len(before) == full else f" {part}"
    return text.strip()


# ---- Tables -----------------------------------------------------------------------------------------


def _rows(text: str) -> list[Row]:
    """On-line processors of a `-p` or `-e` table: those with a core."""
    columns: list[str] = []
    comma = False
    rows: list[Row] = []
    for line in text.splitlines():
        plain = line.strip().lstrip("# ")
        if re.match(r"CPU[, ]", plain) and re.search(r"\bCORE\b", plain, re.IGNORECASE):
            comma = "," in plain
            columns = [word.strip().lower() for word in (plain.split(",") if comma else plain.split())]
            rows = []
        elif columns and line[:4].strip()[:1].isdecimal():
            words = plain.split(",") if comma else plain.split()
            told = dict(zip(columns, words, strict=False))
            cpu, core, socket, node = (_id(told.get(name)) for name in ("cpu", "core", "socket", "node"))
            if cpu >= 0 and core >= 0:
                rows.append(Row(cpu, core, socket, node, _number(told.get("maxmhz", "")) or 0))
    return rows


def _id(word: str | None) -> int:
    number = whole(word)
    return -1 if number is None else number
