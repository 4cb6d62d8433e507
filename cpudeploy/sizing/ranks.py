"""Which CPU each thread of an engine is bound to, for engines that bind their own. Pure.

In: an allocation's cpuset and threads, and the processor. Out: a cpu list for each rank, one rank a NUMA
node: what a rank works on lies in its own node's memory, and no two threads share a physical core.
"""

from __future__ import annotations

from ..types.cpulist import format_cpulist, parse_cpulist
from ..types.facts import Cpu


def rank_cpus(cpuset: str, threads: int, cpu: Cpu) -> tuple[str, ...]:
    """A kernel cpu list for each rank, as many CPUs in all as `threads` (fewer only where `cpuset` has fewer
    cores, or where nodes have to get equal parts). Never empty. Where nobody knows which CPUs share a core
    it is one rank of the first CPUs.
    """
    usable = parse_cpulist(cpuset)
    nodes: dict[int, list[int]] = {}
    for core in cpu.cores if isinstance(cpu.cores, tuple) else ():
        mine = sorted(usable.intersection(core.cpus))
        if mine:
            nodes.setdefault(core.node, []).append(mine[0])
    if not nodes or threads < len(nodes):
        every = [first for firsts in nodes.values() for first in firsts] or sorted(usable)
        return (format_cpulist(sorted(every)[:threads]),)
    # Ranks work in step: one with more threads would only wait for the others.
    each = min(threads // len(nodes), *(len(firsts) for firsts in nodes.values()))
    return tuple(format_cpulist(sorted(firsts)[:each]) for _, firsts in sorted(nodes.items()))
