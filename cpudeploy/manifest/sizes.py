"""Amounts as people write them. In: `8GiB`, `30s`, `0-7,12`. Out: bytes, seconds, a cpu list. Pure."""

from __future__ import annotations

import re

from ..types.cpulist import HIGHEST

_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?\s*([A-Za-z]+)")
_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_LARGEST = 2**50
_SMALLEST = 2**20
_DURATION = re.compile(r"([0-9]{1,9})([sm]?)")
_LONGEST_S = 3600
_CPU_LIST = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")


def parse_size(size: int | str) -> int:
    """Bytes. A number alone is bytes already. Raises ValueError with one clause for people."""
    if isinstance(size, int):
        number = size
    else:
        match = _SIZE.fullmatch(size.strip())
        unit = _UNITS.get(match[3].lower()) if match else None
        if match is None or unit is None:
            raise ValueError("not a size such as 8GiB, 512MiB or 8GB")
        fraction = match[2] or ""
        number = int(match[1] + fraction) * unit // 10 ** len(fraction)
    if number < 0 or number > _LARGEST:
        raise ValueError("out of any machine's range")
    if 0 < number < _SMALLEST:
        raise ValueError(f"only {number} bytes; add a unit such as GiB")
    return number


def parse_duration(time: int | str) -> int:
    """Seconds. A number alone is seconds already. Raises ValueError with one clause for people."""
    match = _DURATION.fullmatch(str(time))
    if match is None:
        raise ValueError("not a time such as 30s or 2m")
    seconds = int(match[1]) * (60 if match[2] == "m" else 1)
    if seconds > _LONGEST_S:
        raise ValueError(f"more than {_LONGEST_S} seconds")
    return seconds


def check_cpu_list(text: str) -> None:
    """A kernel cpu list: `0-7`, `0-3,8`. Raises ValueError with one clause for people."""
    if text.isdecimal():
        raise ValueError(f"text; write {text} without quotes for a count, {text}-{text} for that one CPU")
    if not _CPU_LIST.fullmatch(text):
        raise ValueError("not auto, shared, numa:N, a count or a list such as 0-7")
    seen: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus = range(int(first), int(last or first) + 1)
        if cpus.stop > HIGHEST:
            raise ValueError(f"not a list of CPUs: no machine has CPU {cpus.stop - 1}")
        if not cpus:
            raise ValueError(f"a list with the backward range {part}")
        if seen.intersection(cpus):
            raise ValueError("a list that names a CPU twice")
        seen.update(cpus)
