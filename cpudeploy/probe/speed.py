"""Which cores are faster than others, from what kernels tell of them. Pure.

Only kinds of cores differ here, not cores of a kind: the favoured cores of a desktop turn a few per cent
faster than their neighbours and are still the same; LITTLE and E cores get a fifth less done and more.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cpulist import cpu_list
from .records import Records
from .topology import Topology

_SAME_CAPACITY = 1.25
"""Capacity counts work, instructions a clock included; cores of one kind differ by their clock alone."""
_SAME_CLOCK = 1.15
"""Where clocks are all there is. Intel's E cores may come closer, but its kernels list the kinds."""
_INTEL_KINDS = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""The counters that a hybrid Intel machine has for each of its kinds, fastest first."""


def core_speeds(topology: Topology, cores: Sequence[frozenset[int]], records: Records) -> tuple[int, ...]:
    """For each core the speed of its kind: capacity or MHz; 0 where all are alike or nothing tells."""
    kind_of = _intel_kinds(records)
    kinds = [kind_of.get(min(core), -1) for core in cores]
    capacities, clocks = ([_best(topology, core, which) for core in cores] for which in (0, 1))
    by_capacity = min(capacities, default=0) > 0 and len(set(capacities)) > 1
    told, ratio = (capacities, _SAME_CAPACITY) if by_capacity else (clocks, _SAME_CLOCK)
    if min(told, default=0) > 0:
        speeds = [0] * len(cores)
        for kind in set(kinds):
            level = 0
            for index in sorted((i for i, each in enumerate(kinds) if each == kind), key=lambda i: -told[i]):
                # All P cores are one kind, whatever their clocks; a list of others may hold two.
                if not level or (kind != 0 and told[index] * ratio < level):
                    level = told[index]
                speeds[index] = level
    else:  # the kinds may be known all the same: then their order counts
        speeds = [len(_INTEL_KINDS) - kind for kind in kinds]
    return tuple(speeds) if len(set(speeds)) > 1 else (0,) * len(cores)


def _best(topology: Topology, core: frozenset[int], which: int) -> int:
    """Capacity (0) or maximum MHz (1) of the core, 0 where not told."""
    best = max(topology.speeds.get(cpu, (0, 0))[which] for cpu in core)
    return best // 1000 if which else best


def _intel_kinds(records: Records) -> dict[int, int]:
    """Processor → its kind's place in `_INTEL_KINDS`; empty on any other machine."""
    found: dict[int, int] = {}
    for line in records.lines("kinds"):
        name, _, cpus = line.partition(" ")
        if name in _INTEL_KINDS:
            found.update(dict.fromkeys(cpu_list(cpus), _INTEL_KINDS.index(name)))
    return found
