"""What a plan allows but wants a word about: sizing's warnings, memory that is not free right now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..steps.binding import binding_warnings
from ..steps.context import GIB, HostContext
from ..types.allocation import Allocation
from ..types.base import Unknown
from ..types.names import container_name
from ..types.plan import Change


def sizing_warnings(
    context: HostContext, allocations: Mapping[str, Allocation], changes: Iterable[Change]
) -> tuple[str, ...]:
    """One line each, for the models whose containers change: what runs unchanged was told of when it came."""
    changed = {change.subject for change in changes if change.step == "container"}
    mine = [allocation for model, allocation in allocations.items() if model in changed]
    placed = {each.model: each for each in context.deployment.placements if each.host == context.host.name}
    told: dict[str, list[str]] = {}
    for allocation in mine:
        bound = binding_warnings(placed[allocation.model], context.facts.cpu)
        for warning in (*allocation.warnings, *bound):
            told.setdefault(warning, []).append(allocation.model)
    named = (f"{', '.join(models)}: {warning}" for warning, models in told.items())
    return (*_memory_now(context, mine), *named)


def _memory_now(context: HostContext, mine: Iterable[Allocation]) -> tuple[str, ...]:
    """Free memory is a fact of the moment: no input of sizing, but worth a word. What a replaced container
    may use is given back before the new one starts."""
    available, swap = context.facts.memory.available, context.facts.memory.swap
    wanted = 0
    for allocation in mine:
        name = container_name(context.deployment.name, allocation.model, allocation.instance)
        now = context.facts.containers.get(name)
        wanted += max(0, allocation.need.total - (now.memory if now is not None and now.running else 0))
    if isinstance(available, Unknown) or wanted <= available:
        return ()
    if isinstance(swap, Unknown):
        end = "the host may swap or kill"
    elif swap:
        end = f"the host may swap ({swap / GIB:.1f} GiB of it), and answers take minutes then"
    else:
        end = "the host has no swap and kills what needs too much"
    return (f"{wanted / GIB:.1f} GiB more wanted by models, {available / GIB:.1f} GiB free now: {end}",)
