"""Whether a host has the memory its models ask for, in all and on each NUMA node. Pure; bytes throughout.

In: facts, the limits that are wanted, what others hold. Out: the NUMA nodes each instance's memory is bound
to, or NoRoom. A model is bound to the node its cores lie in where that node has room for its whole limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import DoesNotFit, NoRoom
from ..types.base import Unknown
from ..types.cpulist import format_cpulist, told_cpulist
from ..types.facts import Container, Facts

MIB = 1 << 20

HOST_RESERVE = 384 * MIB
"""Left to the system and the engine where the manifest does not say."""

_LIMIT_GRAIN = 16 * MIB


@dataclass(frozen=True)
class Seat:
    """What one instance's memory needs to know of its place: its limit, the nodes its threads run on, and the
    nodes it is bound to already (None: not decided; empty: decided, to none). ranks: parts of it, each of
    which its engine binds to a node of its own, so that it is killed where there is no room; 0 for engines
    that don't. ways: what would do with so many bytes, in the manifest's words.
    """

    limit: int
    nodes: tuple[int, ...]
    bound: str | None = None
    ranks: int = 0
    ways: Callable[[int], Sequence[str]] = lambda room: ()


@dataclass(frozen=True)
class Binding:
    """`mems`: NUMA nodes as a kernel list, empty for none."""

    mems: str
    reason: str
    warnings: tuple[str, ...] = ()


def container_limit(need: int) -> int:
    """The container's limit for a predicted peak: a twentieth of slack, whole 16 MiB. Bytes.

    The weights' pages are within it, though the kernel could drop them: they are charged to the container
    that reads them first, and with a limit a tenth below what a model of f16 weights held, every token read
    a seventh of the file again from disk (docs/performance.md). The slack is for what the kernel charges
    beside the process's pages (page tables, sockets, /tmp); where weights were rearranged there is far more,
    as the file's pages of those are not read again.
    """
    return -(-(need + need // 20) // _LIMIT_GRAIN) * _LIMIT_GRAIN


def room(facts: Facts, reserve: int | None, others: Mapping[str, Container]) -> int:
    """Bytes that all models of a host together may have. Raises DoesNotFit where nobody knows."""
    total = facts.memory.total
    if not isinstance(total, int):
        raise DoesNotFit(
            f"the host's memory is unknown: {total.unknown}",
            where=facts.host,
            do="make /proc/meminfo readable there",
        )
    left = HOST_RESERVE if reserve is None else reserve
    return total - left - sum(container.memory for container in others.values())


def bind(
    facts: Facts, seats: Mapping[str, Seat], reserve: int | None, others: Mapping[str, Container]
) -> dict[str, Binding]:
    """The binding of every instance, decided ones first. On a host with one node of memory there is none.
    Raises NoRoom for a rank whose node does not hold it."""
    free = node_rooms(facts, reserve, others)
    if len(free) < 2:
        nodes = facts.memory.nodes
        one = "the host has one NUMA node"
        why = f"the host's NUMA nodes are unknown ({nodes.unknown})" if isinstance(nodes, Unknown) else one
        return {name: Binding(mems="", reason=why) for name in seats}
    bound: dict[str, Binding] = {}
    for name, seat in seats.items():
        if seat.bound is not None:
            _take(free, seat.bound, seat.limit, spread=True)
            kept = f"NUMA node {seat.bound}" if seat.bound else "not bound to a NUMA node"
            bound[name] = Binding(mems=seat.bound, reason=f"{kept}: kept from what runs")
    for name, seat in seats.items():
        if name not in bound:
            bound[name] = _bind(free, seat) if not seat.ranks else _bind_ranks(facts.host, name, free, seat)
            _take(free, bound[name].mems, seat.limit, spread=True)
    return bound


def _bind(free: Mapping[int, int], seat: Seat) -> Binding:
    if min(seat.nodes) < 0:
        return Binding(mems="", reason="not bound: no NUMA node lists its CPUs")
    nodes = format_cpulist(seat.nodes)
    if len(seat.nodes) > 1:
        part = (
            "half of what it reads may come from the other one's memory"
            if len(seat.nodes) == 2
            else "most of what it reads comes from other nodes' memory"
        )
        return Binding(
            mems="",
            reason=f"not bound: its cores lie in NUMA nodes {nodes}",
            warnings=(
                f"its cores lie in NUMA nodes {nodes}, and {part}: `cpus: numa:{seat.nodes[0]}` keeps it in "
                "one",
            ),
        )
    left = free.get(seat.nodes[0], 0)
    if seat.limit > left:
        why = f"NUMA node {nodes} has {gib(max(left, 0))} for the {gib(seat.limit)} it may use"
        return Binding(mems="", reason=f"not bound: {why}", warnings=(f"{why}: its memory spans NUMA nodes",))
    return Binding(mems=nodes, reason=f"NUMA node {nodes}, where its cores are")


def _bind_ranks(host: str, name: str, free: Mapping[int, int], seat: Seat) -> Binding:
    """Of an engine that binds its ranks itself."""
    if min(seat.nodes, default=-1) < 0:
        return Binding(mems="", reason="not bound: no NUMA node lists its CPUs")
    part = -(-seat.limit // seat.ranks)
    nodes = format_cpulist(seat.nodes)
    for node in seat.nodes:
        if part > free.get(node, 0):
            what = name if seat.ranks == 1 else f"each of the {seat.ranks} ranks of {name}"
            ways = seat.ways(seat.ranks * max(free.get(node, 0), 0))
            fitting = f"{name} would fit with {' or '.join(ways)}, or " if ways else ""
            raise NoRoom(
                f"{what} needs {gib(part)} of one NUMA node, and node {node} has "
                f"{gib(max(free.get(node, 0), 0))}",
                where=host,
                do=f"{fitting}give it cores of another node with `cpus`",
            )
    if seat.ranks > 1:
        return Binding(mems=nodes, reason=f"NUMA nodes {nodes}, a rank on each: one alone does not hold it")
    return Binding(mems=nodes, reason=f"NUMA node {nodes}, where its threads are")


def node_rooms(facts: Facts, reserve: int | None, others: Mapping[str, Container]) -> dict[int, int]:
    """Node → bytes for models there: without its part of the reserve and what is bound to it alone."""
    nodes = () if isinstance(facts.memory.nodes, Unknown) else facts.memory.nodes
    total = sum(node.memory for node in nodes)
    left = HOST_RESERVE if reserve is None else reserve
    rooms = {node.id: node.memory - left * node.memory // total for node in nodes if node.memory}
    for container in others.values():
        _take(rooms, container.cpuset_mems, container.memory)
    return rooms


def _take(rooms: dict[int, int], mems: str, size: int, *, spread: bool = False) -> None:
    """spread: it takes equal parts of several nodes; else nobody knows which."""
    bound = told_cpulist(mems)
    if bound and bound <= rooms.keys() and (spread or len(bound) == 1):
        for node in bound:
            rooms[node] -= size // len(bound)


def shown(parts: Sequence[tuple[str, int]]) -> str:
    """`a 1.20 GiB, b 512.00 MiB`."""
    return ", ".join(f"{name} {gib(size)}" for name, size in parts)


def gib(size: int) -> str:
    """Bytes as GiB with enough digits that two limits can be told apart."""
    return f"{size / (1 << 30):.2f} GiB" if size < 10 << 30 else f"{size / (1 << 30):.1f} GiB"
