"""The kernel's cpu lists (`0-3,8`) to sets of CPU numbers, and back."""

from __future__ import annotations

from collections.abc import Iterable

HIGHEST = 1 << 16
"""CPUs are numbered below this: no kernel is built for as many."""


def parse_cpulist(text: str) -> frozenset[int]:
    """`0-3,8` → {0, 1, 2, 3, 8}; an empty text is the empty set. Raises ValueError on anything else."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part:
            continue
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < HIGHEST:
            raise ValueError(f"{part!r} is not a range of CPUs")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def told_cpulist(text: str) -> frozenset[int]:
    """As `parse_cpulist`, of a text that a host tells: the empty set for one that is no list."""
    try:
        return parse_cpulist(text)
    except ValueError:
        return frozenset()


def format_cpulist(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 3, 8} → `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
