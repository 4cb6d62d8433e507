"""A host's processors as sizing sees them. In: facts. Out: `Machine`.

Its cores packed by NUMA node, which of them are fast, and how many cores a set of CPUs stands for where
nobody tells which CPUs share one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ..errors import DoesNotFit
from ..types.base import Unknown
from ..types.facts import Core, Facts

T = TypeVar("T")

FAST = 0.92
"""A core is fast when its speed is at least this part of the fastest one's. Engines work in lock-step: one
slow core holds up all of them. Favoured cores of one kind differ by less; the closest of Intel's E cores
turn at nine tenths of the P cores' clock, and get less done in each turn."""

_ONE_THREAD_A_CORE = frozenset({"arm64", "arm", "riscv64"})
"""Architectures whose servers have no SMT, but for a few that are gone from the market."""


@dataclass(frozen=True)
class Machine:
    """What one host has for models.

    cores: packed by NUMA node; where the topology is unknown every usable CPU stands for itself.
    siblings: CPUs that count as one core then (1: every entry of `cores` is a core of its own).
    quota: CPUs' worth of time a second that everything of ours shares, None without a limit.
    siblings_unknown, quota_unknown: why not, in a clause; empty where they are known.
    """

    host: str
    cores: tuple[Core, ...]
    siblings: int = 1
    quota: float | None = None
    siblings_unknown: str = ""
    quota_unknown: str = ""

    @property
    def fast(self) -> tuple[Core, ...]:
        """The cores worth a thread each; all of them where they are alike or nothing tells."""
        speeds = [core.speed for core in self.cores]
        if not speeds or min(speeds) <= 0:
            return self.cores
        return tuple(core for core in self.cores if core.speed >= FAST * max(speeds))

    @property
    def limited(self) -> float | None:
        """The quota where it allows less than all CPUs, else None."""
        cpus = sum(len(core.cpus) for core in self.cores)
        return self.quota if self.quota is not None and self.quota < cpus else None

    def physical(self, cores: Sequence[Core]) -> int:
        """How many physical cores `cores` stand for: at least one where there are any."""
        return min(len(cores), max(1, len(cores) // self.siblings))

    def counted(self, number: int, adjective: str = "") -> str:
        """`6 cores`, or `6 CPUs` where it is not known which of them share a core."""
        noun = "CPU" if self.siblings > 1 else "core"
        return f"{number} {adjective}{noun}" + ("" if number == 1 else "s")


def machine(facts: Facts) -> Machine:
    """The host's cores. Raises DoesNotFit when it does not even tell which CPUs may be used."""
    quota = None if isinstance(facts.cpu.quota, Unknown) else facts.cpu.quota
    unlimited = facts.cpu.quota.unknown if isinstance(facts.cpu.quota, Unknown) else ""
    cores = facts.cpu.cores
    if not isinstance(cores, Unknown):
        return Machine(host=facts.host, cores=_packed(cores), quota=quota, quota_unknown=unlimited)
    usable = facts.cpu.usable
    if isinstance(usable, Unknown) or not usable:
        raise DoesNotFit(
            f"the host's cores are unknown: {cores.unknown}",
            where=facts.host,
            do="make /proc/self/status and /sys/devices/system/cpu readable there",
        )
    return Machine(
        host=facts.host,
        cores=_packed(_alone(usable, facts)),
        siblings=1 if facts.os.arch in _ONE_THREAD_A_CORE else 2,
        quota=quota,
        siblings_unknown=cores.unknown,
        quota_unknown=unlimited,
    )


def reserved_cores(cores: int) -> int:
    """Cores left to the system and the engine's own processes when the manifest does not say."""
    if cores < 8:
        return 0
    return 1 if cores < 32 else 2


def by_node(cores: Iterable[Core]) -> dict[int, list[Core]]:
    """Cores by NUMA node, nodes and cores in the order they come."""
    nodes: dict[int, list[Core]] = {}
    for core in cores:
        nodes.setdefault(core.node, []).append(core)
    return nodes


def deal(cores: Sequence[Core], parts: int) -> list[tuple[Core, ...]]:
    """`cores` (at least `parts` of them) in so many parts, the largest first. Each part lies within one NUMA
    node, or has whole nodes where there are more nodes than parts and none comes off badly for it.
    """
    nodes = list(by_node(cores).values())
    dealt = _within_nodes(nodes, parts)
    if parts < len(nodes):
        whole = [tuple(core for node in block for core in node) for block in _split(nodes, parts)]
        # Nodes differ a little by what is reserved in them, and a lot where others have most of one.
        if min(map(len, whole)) >= 0.75 * min(map(len, dealt)):
            dealt = whole
    return sorted(dealt, key=len, reverse=True)


def _within_nodes(nodes: Sequence[Sequence[Core]], parts: int) -> list[tuple[Core, ...]]:
    shares = [0] * len(nodes)
    for _ in range(parts):
        # Where the next one would get the most.
        best = max(range(len(nodes)), key=lambda node: len(nodes[node]) / (shares[node] + 1))
        shares[best] += 1
    return [
        tuple(part)
        for node, share in zip(nodes, shares, strict=True)
        if share
        for part in _split(node, share)
    ]


def _split(items: Sequence[T], parts: int) -> list[Sequence[T]]:
    """Equal parts in order; the first ones have one more where it does not divide."""
    part, more = divmod(len(items), parts)
    starts = [position * part + min(position, more) for position in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(starts)]


def _packed(cores: Iterable[Core]) -> tuple[Core, ...]:
    return tuple(sorted(cores, key=lambda core: (core.node, core.socket, core.cpus)))


def _alone(usable: Iterable[int], facts: Facts) -> Iterable[Core]:
    """A core for every CPU, on the node that lists it (the first where none does)."""
    nodes = () if isinstance(facts.memory.nodes, Unknown) else facts.memory.nodes
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    first = min((node.id for node in nodes if node.cpus), default=0)
    return (Core(cpus=(cpu,), socket=0, node=node_of.get(cpu, first)) for cpu in usable)


def whole_cpus(quota: float) -> int:
    """Threads that a quota of CPU time keeps busy without being throttled."""
    return max(1, math.floor(quota))
