"""Which physical cores each model of a host runs on.

In: a host's usable cores and quota, what other containers are pinned to, the wishes, and what runs
now. Out: cores per placement with the reason. A model whose wish did not change keeps its cores;
newcomers share what is free; a shortage is an error that says how to get out of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import DoesNotFit
from ..types.facts import Core, Facts
from .cpulist import format_cpulist, parse_cpulist


@dataclass(frozen=True)
class Share:
    """The cores of one model. `threads` for decoding, `batch` for prompt batches."""

    cores: tuple[Core, ...]
    threads: int
    batch: int
    kept: bool
    reason: str

    @property
    def cpuset(self) -> str:
        return _cpus(self.cores)


@dataclass(frozen=True)
class Wish:
    """What a placement asks for: `auto`, `cores:N` (physical), a cpu list, `numa:N` or `shared`.

    `running`: the cpuset it has now if its wish is unchanged, else empty.
    """

    name: str
    cpus: str
    running: str = ""


def reserved_cores(cores: int) -> int:
    """Cores left to the system and the engine's own processes when the manifest does not say."""
    if cores < 8:
        return 0
    return 1 if cores < 32 else 2


def usable_cores(facts: Facts) -> tuple[Core, ...]:
    """The cores we may use, packed by NUMA node. Raises DoesNotFit when the host did not tell."""
    cores = facts.cpu.cores
    if not isinstance(cores, tuple):
        raise DoesNotFit(
            f"the host's cores are unknown: {cores.unknown}",
            where=facts.host,
            do="make /proc/self/status and /sys/devices/system/cpu readable there",
        )
    return tuple(sorted(cores, key=lambda core: (core.node, core.socket, core.cpus)))


def share_cores(
    facts: Facts, wishes: Sequence[Wish], *, reserve: int | None, pinned: Mapping[str, frozenset[int]]
) -> dict[str, Share]:
    """Cores for every wish of one host. `pinned`: container → CPUs of others' containers.

    Raises DoesNotFit naming the host, who has the cores, and two ways out.
    """
    every = usable_cores(facts)
    quota = facts.cpu.quota if isinstance(facts.cpu.quota, float | int) else None
    table = _Table(facts.host, every, _left_to_us(every, reserve, pinned))
    newcomers = [wish for wish in wishes if not table.keep(wish)]
    for wish in newcomers:
        if wish.cpus != "auto":
            table.give(wish)
    table.share_equally([wish for wish in newcomers if wish.cpus == "auto"])
    threads = sum(len(grant.cores) for grant in table.granted.values())
    return {
        name: _share(grant, None if quota is None else quota * len(grant.cores) / threads)
        for name, grant in table.granted.items()
    }


def _left_to_us(
    every: tuple[Core, ...], reserve: int | None, pinned: Mapping[str, frozenset[int]]
) -> tuple[Core, ...]:
    """All cores but those of others' containers and the reserve; the last ones are reserved."""
    others = frozenset(cpu for cpus in pinned.values() for cpu in cpus)
    keep = reserved_cores(len(every)) if reserve is None else reserve
    ours = [core for core in every if not others.intersection(core.cpus)]
    return tuple(ours[: max(0, len(every) - keep)])


@dataclass(frozen=True)
class _Grant:
    cores: tuple[Core, ...]
    reason: str
    kept: bool = False


class _Table:
    """The cores of one host while they are handed out: who has what, and what is free."""

    def __init__(self, host: str, every: tuple[Core, ...], ours: tuple[Core, ...]) -> None:
        self.host = host
        self.every = every
        self.ours = ours
        self.free = list(ours)
        self.granted: dict[str, _Grant] = {}

    def keep(self, wish: Wish) -> bool:
        """Leave a running model its cores if its wish did not change and they are still to be had."""
        mine = _cores_of(self.every, wish.running)
        if wish.cpus == "shared" or not mine or not all(core in self.free for core in mine):
            return False
        self._take(wish.name, mine, "kept from what runs", kept=True)
        return True

    def give(self, wish: Wish) -> None:
        """Cores for a wish that says which or how many."""
        if wish.cpus == "shared":
            if not self.ours:
                raise self._shortage(wish.name, "cores to share")
            self.granted[wish.name] = _Grant(self.ours, "shared with the other models of this host")
        elif wish.cpus.startswith("cores:"):
            count = int(wish.cpus.removeprefix("cores:"))
            if count > len(self.free):
                raise self._shortage(wish.name, _count(count))
            self._take(wish.name, self.free[:count], f"{_count(count)} as asked")
        elif wish.cpus.startswith("numa:"):
            node = int(wish.cpus.removeprefix("numa:"))
            there = [core for core in self.free if core.node == node]
            if not there:
                raise self._shortage(wish.name, f"cores of NUMA node {node}")
            self._take(wish.name, there, f"all free cores of NUMA node {node}")
        else:
            self._give_listed(wish)

    def share_equally(self, wishes: Sequence[Wish]) -> None:
        """Fresh `auto`s get equal parts of what is free; the first ones one more where it doesn't divide."""
        if len(self.free) < len(wishes):
            raise self._shortage(wishes[len(self.free)].name, "a core")
        free = tuple(self.free)
        for position, wish in enumerate(wishes):
            part, more = divmod(len(free), len(wishes))
            start = position * part + min(position, more)
            cores = free[start : start + part + (position < more)]
            whole = "the one free core" if len(cores) == 1 else f"all {len(cores)} free cores"
            equal = f"{_count(len(cores))}, an equal share of what is free"
            self._take(wish.name, cores, whole if len(wishes) == 1 else equal)

    def _give_listed(self, wish: Wish) -> None:
        asked = parse_cpulist(wish.cpus)
        known = {cpu for core in self.every for cpu in core.cpus}
        if not asked <= known:
            raise DoesNotFit(
                f"{wish.name} asks for CPUs {format_cpulist(asked - known)} which this host "
                "does not have or may not use",
                where=self.host,
                do=f"choose from {format_cpulist(known)}",
            )
        touched = [core for core in self.every if asked.intersection(core.cpus)]
        if any(core not in self.free for core in touched):
            raise self._shortage(wish.name, f"CPUs {wish.cpus}")
        self._take(wish.name, touched, "")
        parts = tuple(
            Core(cpus=tuple(cpu for cpu in core.cpus if cpu in asked), socket=core.socket, node=core.node)
            for core in touched
        )
        self.granted[wish.name] = _Grant(parts, "CPUs as asked")

    def _take(self, name: str, cores: Sequence[Core], reason: str, *, kept: bool = False) -> None:
        self.granted[name] = _Grant(tuple(cores), reason, kept)
        self.free = [core for core in self.free if core not in cores]

    def _shortage(self, name: str, wanted: str) -> DoesNotFit:
        holders = ", ".join(f"{other} has {_cpus(grant.cores)}" for other, grant in self.granted.items())
        return DoesNotFit(
            f"{name} asks for {wanted}; free CPUs: {_cpus(self.free) or 'none'}"
            + (f" ({holders})" if holders else ""),
            where=self.host,
            do="say `cpus: shared` for models that may share cores, or move one to another host",
        )


def _share(grant: _Grant, quota: float | None) -> Share:
    """Threads for these cores: never more than their part of a CPU quota; SMT siblings only for prompt
    batches."""
    threads = len(grant.cores)
    batch = sum(len(core.cpus) for core in grant.cores)
    reason = grant.reason
    if quota is not None and quota < batch:
        reason = f"{reason}; limited by a CPU quota of {quota:.3g}"
        threads = batch = min(threads, max(1, math.floor(quota)))
    return Share(cores=grant.cores, threads=threads, batch=batch, kept=grant.kept, reason=reason)


def _cores_of(cores: Sequence[Core], cpuset: str) -> list[Core]:
    """The cores that make up `cpuset` exactly; none when it names a CPU that is not usable any more."""
    wanted = parse_cpulist(cpuset)
    found = [core for core in cores if wanted.intersection(core.cpus)]
    return found if {cpu for core in found for cpu in core.cpus} == wanted else []


def _cpus(cores: Sequence[Core]) -> str:
    return format_cpulist(cpu for core in cores for cpu in core.cpus)


def _count(cores: int) -> str:
    return "1 core" if cores == 1 else f"{cores} cores"
