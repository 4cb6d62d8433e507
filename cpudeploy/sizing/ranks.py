"""Ranks of engines that bind their own threads: how many, and which CPU each thread is bound to. Pure.

A rank is a part of the model (tensor parallel) that works on one NUMA node's cores and in its memory. Ranks
wait for each other in every layer, so that there are no more than memory makes necessary. No two threads
share a physical core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..types.cpulist import format_cpulist, parse_cpulist
from ..types.facts import Facts
from ..types.shape import ModelShape
from .demand import Demand
from .machine import machine
from .memory import container_limit


@dataclass(frozen=True)
class Split:
    """ranks: into how many parts a model is to be split. homes: the nodes whose memory holds a part."""

    ranks: int = 1
    homes: frozenset[int] = frozenset()


def split_of(demand: Demand, rooms: Mapping[int, int]) -> Split:
    """The fewest ranks of which each one's part has room in a node of its own; where there are none, as many
    as there can be. rooms: node → bytes for models there."""
    free = sorted(rooms.values(), reverse=True)
    if not demand.bound or len(free) < 2:
        return Split()
    shape = demand.measures.shape if demand.measures is not None else None
    possible = [ranks for ranks in range(1, len(free) + 1) if divides(shape, ranks)]
    for ranks in possible:
        limit = demand.placement.memory or container_limit(demand.split(ranks).least)
        if limit <= ranks * free[ranks - 1]:
            return Split(ranks, frozenset(node for node, room in rooms.items() if limit <= ranks * room))
    return Split(possible[-1])


def divides(shape: ModelShape | None, ranks: int) -> bool:
    """Whether the model's heads can be dealt out to so many ranks."""
    if ranks == 1 or shape is None or not shape.heads:
        return ranks == 1
    caches = all(each.kv_heads % ranks == 0 or ranks % each.kv_heads == 0 for each in shape.attention)
    return shape.heads % ranks == 0 and caches


def rank_cpus(cpuset: str, threads: int, facts: Facts, ranks: int) -> tuple[str, ...]:
    """A kernel cpu list for each of at most `ranks` ranks, all equally long: `threads` CPUs in all, or as
    many fewer as it takes. Never empty. Where nobody knows which CPUs share a core: the first of each node.
    """
    usable = parse_cpulist(cpuset)
    nodes: dict[int, list[int]] = {}
    for core in machine(facts).cores:
        mine = sorted(usable.intersection(core.cpus))
        if mine:
            nodes.setdefault(core.node, []).append(mine[0])
    if not nodes:
        return (format_cpulist(sorted(usable)[:threads]),)
    chosen = _largest(nodes, ranks)
    # Ranks work in step: one with more threads would only wait for the others.
    each = min(max(1, threads // len(chosen)), *(len(nodes[node]) for node in chosen))
    return tuple(format_cpulist(sorted(nodes[node])[:each]) for node in chosen)


def _largest(nodes: Mapping[int, Sequence[int]], count: int) -> list[int]:
    """So many of the nodes, those with the most CPUs, in their order."""
    return sorted(sorted(nodes, key=lambda node: (-len(nodes[node]), node))[:count])


def nodes_of(lists: Sequence[str], facts: Facts) -> tuple[int, ...]:
    """The NUMA nodes that these CPUs lie in."""
    cpus = {each for text in lists for each in parse_cpulist(text)}
    return tuple(sorted({core.node for core in machine(facts).cores if cpus.intersection(core.cpus)}))
