"""Which CPUs an engine is told to bind its threads to: sizing's, or those written by hand. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from ..errors import HostError
from ..types.allocation import Allocation
from ..types.cpulist import format_cpulist, parse_cpulist
from ..types.deployment import Placement
from ..types.facts import Cpu


def bound_cpus(placement: Placement, allocation: Allocation, ranks: Sequence[str]) -> str:
    """A cpu list a rank, joined by |, or a word of the engine's that was written by hand.

    Raises HostError for lists by hand that are not one a rank, or lie outside of the model's own CPUs: the
    kernel would refuse every thread's binding.
    """
    if not is_list(placement.bind):
        return placement.bind or "|".join(ranks)
    where, lists = f"{placement.host} {placement.model}", placement.bind.split("|")
    if len(lists) != len(ranks):
        raise HostError(
            f"`{placement.bind}` binds threads of {len(lists)} ranks, and {placement.model} runs as "
            f"{len(ranks)}",
            where=where,
            do=f"write {len(ranks)} of them, such as {'|'.join(ranks)}, or leave it to sizing",
        )
    outside = parse_cpulist(placement.bind.replace("|", ",")) - parse_cpulist(allocation.cpuset)
    if outside:
        raise HostError(
            f"threads are to be bound to CPUs {format_cpulist(outside)}, and {placement.model} runs on "
            f"{allocation.cpuset}",
            where=where,
            do=f'bind to some of those, or write `cpus: "{_all(placement.bind)}"`',
        )
    return placement.bind


def binding_warnings(placement: Placement, cpu: Cpu) -> tuple[str, ...]:
    """What is known only with the processor: two threads by hand on one core."""
    if not is_list(placement.bind) or not isinstance(cpu.cores, tuple):
        return ()
    bound = parse_cpulist(placement.bind.replace("|", ","))
    shared = [core.cpus for core in cpu.cores if len(bound.intersection(core.cpus)) > 1]
    if not shared:
        return ()
    first = format_cpulist(bound.intersection(shared[0]))
    return (
        f"bound by hand to {placement.bind}: CPUs {first} are one core, whose two threads take turns"
        + (f" (so are {len(shared) - 1} other pairs)" if len(shared) > 1 else ""),
    )


def is_list(bind: str | None) -> TypeGuard[str]:
    """Whether what is written by hand are CPUs, and no word of the engine's."""
    return bind is not None and bind[:1].isdecimal()


def _all(bind: str) -> str:
    return format_cpulist(parse_cpulist(bind.replace("|", ",")))
