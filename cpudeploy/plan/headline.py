"""One line that says what a host is: distribution, cores, memory, instruction sets."""

from __future__ import annotations

from ..types.facts import Facts

_NOTABLE = (
    ("amx_tile", "AMX"),
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)


def headline(facts: Facts) -> str:
    """`Debian 12 · 2 cores, 4 threads · 13.4 of 15.6 GiB free · AVX2`; what is unknown says so."""
    parts = [facts.os.name or "unknown system"]
    cores = facts.cpu.cores
    if isinstance(cores, tuple):
        threads = sum(len(core.cpus) for core in cores)
        noun = "core" if len(cores) == 1 else "cores"
        text = f"{len(cores)} {noun}" + (f", {threads} threads" if threads != len(cores) else "")
        if isinstance(facts.cpu.quota, float | int):
            text += f", quota {facts.cpu.quota:g}"
        parts.append(text)
    else:
        usable = facts.cpu.usable
        parts.append(
            f"{len(usable)} threads, cores unknown" if isinstance(usable, tuple) else "cores unknown"
        )
    total, available = facts.memory.total, facts.memory.available
    if isinstance(total, int):
        free = f"{available / (1 << 30):.1f} of " if isinstance(available, int) else ""
        parts.append(f"{free}{total / (1 << 30):.1f} GiB" + (" free" if free else ""))
    flags = facts.cpu.flags
    if isinstance(flags, tuple):
        best = next((label for flag, label in _NOTABLE if flag in flags), None)
        if best:
            parts.append(best)
    return " · ".join(parts)
