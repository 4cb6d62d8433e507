"""Which physical cores each model of a host runs on.

In: a host's usable cores and quota, what other containers are pinned to, the wishes, and what runs
now. Out: cores and threads per placement with the reason. A model whose wish did not change keeps its cores;
newcomers get what is free, packed by NUMA node; a shortage is an error that says how to get out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ..errors import DoesNotFit, NoRoom
from ..types.cpulist import format_cpulist, parse_cpulist, told_cpulist
from ..types.facts import Core, Facts
from .machine import Machine, by_node, deal, machine, reserved_cores
from .threads import Grant, Share, cpus_of, shares_of

__all__ = ["Share", "Wish", "share_cores"]


@dataclass(frozen=True)
class Wish:
    """What a placement asks for: `auto`, `cores:N` (physical), a cpu list, `numa:N` or `shared`.

    `running`: the cpuset it has now if its wish is unchanged, else empty; `threads` and `batch` those it
    runs with, 0 where that is not known.
    nodes: the most NUMA nodes that are worth having, 0: any number; homes: those to be had first. bound: its
    engine binds a thread to every core for good, so that what else its container does needs CPUs of its own.
    """

    name: str
    cpus: str
    running: str = ""
    threads: int = 0
    batch: int = 0
    nodes: int = 0
    homes: frozenset[int] = frozenset()
    bound: bool = False

    @property
    def listed(self) -> bool:
        """Whether it names CPUs."""
        return self.cpus not in ("auto", "shared") and ":" not in self.cpus


def share_cores(
    facts: Facts, wishes: Sequence[Wish], *, reserve: int | None, pinned: Mapping[str, frozenset[int]]
) -> dict[str, Share]:
    """Cores and threads for every wish of one host. `reserve`: cores to leave free, None: by the rule.
    `pinned`: container → CPUs of others' containers.

    Raises NoRoom naming the host, who has the cores and what to do, DoesNotFit for CPUs there are not.
    """
    table = _Table(machine(facts), reserve, pinned)
    new = [wish for wish in wishes if not table.keep(wish)]
    # What can only be had in one place goes first.
    for wish in new:
        if wish.listed:
            table.give_listed(wish)
    nodes = [wish for wish in new if wish.cpus.startswith("numa:")]
    for wish in new:
        if wish.cpus.startswith("cores:"):
            table.give_count(wish, avoid={_number(other) for other in nodes})
    for node in dict.fromkeys(map(_number, nodes)):
        table.give_node([wish for wish in nodes if _number(wish) == node], node)
    table.give_rest(
        [wish for wish in new if wish.cpus == "auto"], [wish for wish in new if wish.cpus == "shared"]
    )
    return shares_of(table.machine, {wish.name: table.granted[wish.name] for wish in wishes})


def _within(wish: Wish, cores: Sequence[Core]) -> Sequence[Core]:
    """Those of its homes, and of the nodes with the most, no more nodes than the wish has use for."""
    nodes = by_node(cores)
    if not wish.nodes or len(nodes) <= wish.nodes:
        return cores
    best = sorted(nodes, key=lambda node: (node not in wish.homes, -len(nodes[node])))[: wish.nodes]
    return [core for core in cores if core.node in best]


def _number(wish: Wish) -> int:
    return int(wish.cpus.partition(":")[2])


@dataclass
class _Table:
    """The cores of one host while they are handed out: who has what, and what is free."""

    machine: Machine
    reserve: int | None
    pinned: Mapping[str, frozenset[int]]
    granted: dict[str, Grant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        others = frozenset(cpu for cpus in self.pinned.values() for cpu in cpus)
        self._ours = [core for core in self.machine.cores if not others.intersection(core.cpus)]
        self.free = list(self._ours)
        self._exclusive: set[Core] = set()
        self._pool: set[Core] = set()
        self._fast_ones = frozenset(self.machine.fast)

    def keep(self, wish: Wish) -> bool:
        """Leave a running model its cores and threads, if its wish is unchanged and they can be had."""
        mine = self._cores_of(told_cpulist(wish.running))
        shared = wish.cpus == "shared"
        taken = self._exclusive if shared else self._exclusive | self._pool
        if not mine or not taken.isdisjoint(self._whole(mine)):
            return False
        self.granted[wish.name] = Grant(
            cores=mine,
            reason="kept from what runs",
            kept=True,
            said=wish.listed or wish.cpus.startswith("cores:"),
            shared=shared,
            threads=wish.threads,
            batch=wish.batch,
            bound=wish.bound,
            warnings=self._clashes(mine),
        )
        self._take(mine, shared=shared)
        return True

    def give_listed(self, wish: Wish) -> None:
        """The CPUs a wish names, whatever they are worth."""
        asked = parse_cpulist(wish.cpus)
        known = frozenset(cpu for core in self.machine.cores for cpu in core.cpus)
        if not asked <= known:
            raise DoesNotFit(
                f"{wish.name} asks for CPUs {format_cpulist(asked - known)} which this host "
                "does not have or may not use",
                where=self.machine.host,
                do=f"choose from {format_cpulist(known)}",
            )
        mine = self._cores_of(asked)
        if not self._whole(mine) <= set(self.free):
            raise self._shortage(wish.name, f"CPUs {wish.cpus}")
        self._give(wish, mine, "CPUs as asked", said=True)

    def give_count(self, wish: Wish, avoid: set[int]) -> None:
        """So many cores: fast ones if there are as many, within one NUMA node if it has as many.

        A reserve that the manifest names is left; the default one gives way to a number that is said.
        """
        count = _number(wish)
        room = len(self.free) - (self.reserve or 0) * self.machine.siblings
        if count > room:
            less = (f"ask for at most {room}",) if room > 0 else ()
            raise self._shortage(wish.name, self.machine.counted(count), self.reserve or 0, less)
        fast = self._fast(self.free)
        choice = fast if count <= len(fast) else [*fast, *(core for core in self.free if core not in fast)]
        nodes = by_node(choice)
        fitting = [node for node, cores in nodes.items() if len(cores) >= count]
        if fitting:
            best = min(fitting, key=lambda node: (node in avoid, len(nodes[node])))
            mine = nodes[best][:count]
        else:
            largest = sorted(nodes.values(), key=len, reverse=True)
            mine = [core for cores in largest for core in cores][:count]
        self._give(wish, mine, f"{self.machine.counted(count)} as asked", said=True)

    def give_node(self, wishes: Sequence[Wish], node: int) -> None:
        """All free fast cores of one NUMA node, in equal parts."""
        known = sorted(by_node(self.machine.cores))
        if node not in known:
            raise DoesNotFit(
                f"{wishes[0].name} asks for NUMA node {node}, where this host has no core to use",
                where=self.machine.host,
                do=f"choose from {', '.join(f'numa:{each}' for each in known if each >= 0) or 'auto'}",
            )
        there = self._fast([core for core in self.free if core.node == node])
        if len(there) < len(wishes):
            raise self._shortage(wishes[len(there)].name, f"cores of NUMA node {node}")
        for wish, mine in zip(wishes, deal(there, len(wishes)), strict=True):
            part = "all" if len(wishes) == 1 else f"{self.machine.counted(len(mine))}, an equal part of the"
            self._give(wish, mine, f"{part} free cores of NUMA node {node}{self._without_slow(there)}")

    def give_rest(self, autos: Sequence[Wish], sharers: Sequence[Wish]) -> None:
        """What is left, but for the reserve, in equal parts; those that share count as one of the takers.
        Sharers that run already are joined."""
        joins = bool(sharers and self._pool)
        takers = len(autos) + (1 if sharers and not joins else 0)
        rest, reserved = self._without_reserve()
        if len(rest) < takers:
            name = (*autos, *sharers)[len(rest)].name
            before = ", ".join(wish.name for wish in autos[: len(rest)])
            wanted = "cores to share" if len(rest) == len(autos) else "a core of its own"
            raise self._shortage(name, f"{wanted} beside {before}" if before else wanted, reserved)
        fast = self._fast(rest)
        choice = fast if len(fast) >= takers else rest
        parts = deal(choice, takers) if takers else []
        for wish, part in zip(autos, parts, strict=False):
            mine = _within(wish, part)
            why = self._why(part, choice, takers, reserved)
            if len(mine) < len(part):
                few = "one NUMA node" if wish.nodes == 1 else f"{wish.nodes} NUMA nodes"
                why = f"of {why}, those in {few}, whose memory holds it"
            self._give(wish, mine, why, warnings=self._slow_warning(mine))
        if sharers:
            new = [core for core in choice if core in self.free] if joins else parts[-1]
            pool = tuple(core for core in self.machine.cores if core in self._pool or core in new)
            reason = f"shared with the other models of this host{self._without_slow(pool)}"
            for wish in sharers:
                self._give(wish, pool, reason, shared=True)

    def _why(self, mine: Sequence[Core], choice: Sequence[Core], takers: int, reserved: int) -> str:
        """Why an `auto` got these."""
        slow = self._without_slow(choice)
        if takers > 1:
            return f"{self.machine.counted(len(mine))}, an equal share of what is free{slow}"
        every = "the one free core" if len(mine) == 1 else f"all {self.machine.counted(len(mine), 'free ')}"
        return every + (f", {reserved} left to the system" if reserved and not slow else "") + slow

    def _without_reserve(self) -> tuple[list[Core], int]:
        """Free cores but for those left to the system (slow ones first, else the last), and how many are."""
        every = self.machine.physical(self.machine.cores)
        count = reserved_cores(every) if self.reserve is None else self.reserve
        slow = [core for core in self.free if core not in self._fast_ones]
        fast = [core for core in self.free if core in self._fast_ones]
        left = [*reversed(slow), *reversed(fast)][: count * self.machine.siblings]
        return [core for core in self.free if core not in left], len(left)

    def _fast(self, cores: Sequence[Core]) -> list[Core]:
        """Those worth a thread; all of them where no fast one is among them."""
        fast = [core for core in cores if core in self._fast_ones]
        return fast or list(cores)

    def _without_slow(self, chosen: Sequence[Core]) -> str:
        slow = len(self.machine.cores) - len(self._fast_ones)
        return f"; {slow} slower cores are left out" if slow and self._fast_ones.issuperset(chosen) else ""

    def _slow_warning(self, mine: Sequence[Core]) -> tuple[str, ...]:
        slow = len(set(mine) - self._fast_ones)
        if not slow:
            return ()
        return (f"{slow} of its {self.machine.counted(len(mine))} are slow: the fast ones are taken",)

    def _give(
        self,
        wish: Wish,
        cores: Iterable[Core],
        reason: str,
        *,
        said: bool = False,
        shared: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> None:
        mine = tuple(cores)
        self.granted[wish.name] = Grant(
            mine, reason, said=said, shared=shared, bound=wish.bound, warnings=warnings
        )
        self._take(mine, shared=shared)

    def _take(self, cores: Sequence[Core], *, shared: bool) -> None:
        whole = self._whole(cores)
        (self._pool if shared else self._exclusive).update(whole)
        self.free = [core for core in self.free if core not in whole]

    def _whole(self, cores: Sequence[Core]) -> set[Core]:
        """The cores of the machine that `cores` are, or are parts of."""
        cpus = {cpu for core in cores for cpu in core.cpus}
        return {core for core in self.machine.cores if not cpus.isdisjoint(core.cpus)}

    def _cores_of(self, wanted: frozenset[int]) -> tuple[Core, ...]:
        """The cores that make up `wanted`, cut to those CPUs; none when one of them is no longer usable."""
        found = [
            msgspec.structs.replace(core, cpus=tuple(cpu for cpu in core.cpus if cpu in wanted))
            for core in self.machine.cores
            if wanted.intersection(core.cpus)
        ]
        return tuple(found) if {cpu for core in found for cpu in core.cpus} == wanted else ()

    def _clashes(self, mine: Sequence[Core]) -> tuple[str, ...]:
        """Others' containers that were pinned to a running model's CPUs since."""
        cpus = frozenset(cpu for core in mine for cpu in core.cpus)
        return tuple(
            f"container {name} is pinned to its CPUs {format_cpulist(cpus & theirs)} too: both are slower; "
            "`--repack` gives it others"
            for name, theirs in self.pinned.items()
            if cpus & theirs
        )

    def _shortage(self, name: str, wanted: str, reserved: int = 0, less: tuple[str, ...] = ()) -> NoRoom:
        """less: what could be asked for instead."""
        holders = [f"{other} has {cpus_of(grant.cores)}" for other, grant in self.granted.items()]
        holders += [f"container {other} has {format_cpulist(cpus)}" for other, cpus in self.pinned.items()]
        holders += [f"{reserved} left to the system"] if reserved else []
        ways = list(less)
        if self._ours:  # models share cores with each other only, never with other containers
            ways.append("say `cpus: shared` for models that may share cores")
        if self.pinned:
            ways.append("leave these containers fewer CPUs (another deployment's: by `cpus` in its manifest)")
        if any(grant.kept for grant in self.granted.values()):
            ways.append("deal all cores out again with `--repack`")
        return NoRoom(
            f"{name} asks for {wanted}; free CPUs: {cpus_of(self.free) or 'none'}"
            + (f" ({', '.join(holders)})" if holders else ""),
            where=self.machine.host,
            do=", or ".join(ways),
        )
