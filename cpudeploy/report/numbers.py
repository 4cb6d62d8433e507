"""Numbers as people read them. Plain numbers in, short text out; never rounds a unit up to 1024 or 60.

Memory speaks GiB and MiB, as limits and `free` do; downloads speak GB and MB, as hubs and registries do.
"""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_DECIMAL = ("B", "kB", "MB", "GB", "TB")
_GIB = 1 << 30
_MIB = 1 << 20


def memory_size(size: int) -> str:
    """Bytes of memory: `3.5 GiB`, `512 MiB`."""
    return _scaled(size, 1024, _BINARY)


def data_size(size: int) -> str:
    """Bytes of a file or download: `2.2 GB`, `86 MB`."""
    return _scaled(size, 1000, _DECIMAL)


def data_progress(done: int, total: int) -> str:
    """Bytes so far of a download: `1.1 of 2.2 GB`, `900 MB of 2.2 GB`."""
    so_far, whole = data_size(done), data_size(total)
    number, unit = so_far.split(" ")
    return f"{number if whole.endswith(f' {unit}') else so_far} of {whole}"


def memory_parts(parts: dict[str, int]) -> str:
    """A sum told by its parts, in the unit of the sum: `2.0 weights + 0.75 KV` (GiB unsaid).

    `parts`: name → bytes; parts of nothing are left out. Below one GiB the unit is MiB, and said.
    """
    small = sum(parts.values()) < _GIB
    unit = _MIB if small else _GIB
    told = [f"{_part(size / unit, whole=small)} {name}" for name, size in parts.items() if size > 0]
    return " + ".join(told) + (" MiB" if small and told else "")


def duration(seconds: float) -> str:
    """Seconds as `0.4 s`, `20 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    seconds = max(seconds, 0.0)
    if 0 < seconds < 0.05:
        return "<0.1 s"
    if round(seconds, 1) < 10:
        return f"{_trim(f'{seconds:.1f}')} s"
    whole = round(seconds)
    for big, small, size, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {big}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def time_left(seconds: float) -> str:
    """How long something may still take, as coarse as one can know it: `7 s`, `40 s`, `3 min 20 s`."""
    steps = ((10, 1), (60, 5), (600, 10), (3600, 60))
    step = next((step for below, step in steps if seconds < below), 300)
    return duration(max(1, math.ceil(seconds / step)) * step)


def rate(bytes_per_s: float) -> str:
    """Speed of a download: `12.3 MB/s`."""
    return f"{data_size(round(bytes_per_s))}/s"


def percent(done: int, total: int) -> int:
    """Whole per cent, 100 only when all of it is done."""
    if total <= 0:
        return 0
    return 100 if done >= total else done * 100 // total


def _scaled(size: int, base: int, units: tuple[str, ...]) -> str:
    sign, value = ("-", -size) if size < 0 else ("", size)
    index, scale = 0, 1
    # Compare as it will be printed, so that 1023.96 MiB becomes 1 GiB rather than 1024 MiB.
    while index < len(units) - 1 and float(_digits(value / scale)) >= base:
        index, scale = index + 1, scale * base
    return f"{sign}{_digits(value / scale)} {units[index]}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if round(value, 1) >= 100 else _trim(f"{value:.1f}")


def _part(value: float, *, whole: bool) -> str:
    if whole:
        return f"{value:.0f}" if value >= 1 else "<1"
    if value >= 0.995:
        return f"{value:.1f}"
    return _trim(f"{value:.2f}") if value >= 0.005 else "<0.01"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".")
