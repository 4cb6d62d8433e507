"""/proc/cpuinfo of any architecture. Pure.

The script sends its lines sorted, each once: enough for models and flags. Whole, as `cpuinfo-all`, it
comes only from where /sys has no topology.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .cpulist import whole

_FLAG_KEYS = {"flags", "features", "isa", "hart isa"}
_MODEL_KEYS = ("model name", "cpu model", "uarch", "cpu")


@dataclass(frozen=True)
class Processor:
    """One entry. None: not told. `siblings` counts the socket's processors, `cores` its cores."""

    cpu: int
    socket: int | None
    core: int | None
    siblings: int | None
    cores: int | None
    flags: str
    """The line of its instruction sets."""


def read_models(lines: Iterable[str]) -> tuple[str, ...]:
    """What the processors are called, the best key there is. Board names (`Hardware`) are none."""
    values = _values(lines)
    machine = re.search(r"machine = (\w+)", "\n".join(values.get("processor 0", [])))
    for key in _MODEL_KEYS:
        if values.get(key):
            return tuple(dict.fromkeys(value.partition(", altivec")[0] for value in values[key]))
    return (f"IBM machine type {machine[1]}",) if machine else ()


def read_flags(lines: Iterable[str]) -> tuple[str, ...] | None:
    """Instruction sets that all processors have, sorted; None where none are told."""
    values = _values(lines)
    sets = [set(_words(line)) for key in _FLAG_KEYS for line in values.get(key, [])]
    if not sets and values.get("cpu"):
        # POWER tells the one it may lack with its name.
        sets = [{"altivec"} if "altivec supported" in value else set() for value in values["cpu"]]
    return tuple(sorted(set.intersection(*sets))) if sets else None


def read_numbers(lines: Iterable[str]) -> frozenset[int]:
    """Numbers of the processors it lists, whether sorted or whole."""
    found = set()
    for line in lines:
        key, colon, value = (part.strip() for part in line.partition(":"))
        number = whole(value)
        if colon and key in ("processor", "cpu number") and number is not None:
            found.add(number)
    return frozenset(found)


def read_processors(lines: Iterable[str]) -> tuple[Processor, ...]:
    """The entries of the whole file."""
    entries: list[dict[str, str]] = []
    for line in lines:
        key, colon, value = (part.strip() for part in line.partition(":"))
        if key in ("processor", "cpu number") and whole(value) is not None:
            entries.append({"number": value})
        elif colon and entries:
            entries[-1][key.lower()] = value
    return tuple(
        Processor(
            cpu=int(entry["number"]),
            socket=_socket(entry),
            core=whole(entry.get("core id")),
            siblings=whole(entry.get("siblings")),
            cores=whole(entry.get("cpu cores")),
            flags=next((entry[key] for key in _FLAG_KEYS if entry.get(key)), ""),
        )
        for entry in entries
    )


def _socket(entry: dict[str, str]) -> int | None:
    """Mainframes number sockets anew in each book, and books in each drawer."""
    socket = whole(entry.get("physical id"))
    if socket is None:
        return None
    book, drawer = whole(entry.get("book id")) or 0, whole(entry.get("drawer id")) or 0
    return socket + (book << 16) + (drawer << 32)


def _words(line: str) -> list[str]:
    return (line.replace("_", " ") if line.startswith("rv") else line).split()


def _values(lines: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(key.strip().lower(), []).append(value.strip())
    return found
