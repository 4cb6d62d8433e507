"""One line that says what a host is: distribution, cores, memory, instruction sets."""

from __future__ import annotations

from ..types.base import Unknown
from ..types.capability import able
from ..types.facts import Cpu, Facts
from ..types.words import count

_NOTABLE = (
    ("amx", "AMX"),
    ("avx512", "AVX-512"),
    ("avx2", "AVX2"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)


def headline(facts: Facts) -> str:
    """`Debian 12 · 2 cores, 4 threads · 13.4 of 15.6 GiB free · AVX2`; what is unknown says so."""
    parts = [facts.os.name or "unknown system"]
    parts.append(_cores(facts.cpu))
    total, available = facts.memory.total, facts.memory.available
    if isinstance(total, int):
        free = f"{available / (1 << 30):.1f} of " if isinstance(available, int) else ""
        parts.append(f"{free}{total / (1 << 30):.1f} GiB" + (" free" if free else ""))
    best = next((label for ability, label in _NOTABLE if able(facts, ability) is True), None)
    if best:
        parts.append(best)
    return " · ".join(parts)


def _cores(cpu: Cpu) -> str:
    if isinstance(cpu.usable, Unknown):
        return "cores unknown"
    if isinstance(cpu.cores, Unknown):
        text = f"{count(len(cpu.usable), 'CPU')}, cores unknown"
    else:
        text = count(len(cpu.cores), "core")
        fast = sum(core.speed == max(each.speed for each in cpu.cores) for core in cpu.cores)
        if fast < len(cpu.cores):
            text += f" ({fast} fast)"
        if len(cpu.usable) != len(cpu.cores):
            text += f", {count(len(cpu.usable), 'thread')}"
    return text if isinstance(cpu.quota, Unknown) or cpu.quota is None else f"{text}, quota {cpu.quota:g}"
