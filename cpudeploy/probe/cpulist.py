"""The kernel's way to write sets of numbers: `0-3,8`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_HIGHEST = 1 << 16
"""More processors than any kernel is built for; a longer range is damage, not a machine."""


def cpu_list(text: str) -> frozenset[int]:
    """The numbers of a list; what follows a blank is no part of it, nor is anything that can't be read."""
    found: set[int] = set()
    for part in (text.split() or [""])[0].split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            continue
        begin, end = int(first), int(last if dash else first)
        if end < _HIGHEST:
            found.update(range(begin, end + 1))
    return frozenset(found)


def show_cpus(cpus: Iterable[int]) -> str:
    """The inverse, shortest form."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
