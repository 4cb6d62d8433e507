"""Beside or stop-first: how a new version of a model takes over, and why so. Pure.

In: what serves, what is wanted, everything else on the host. Out: a `Way` in words for people. Beside needs
memory for both at a time, in all and on the NUMA node they are bound to, and cores enough that the one that
loads does not starve the one that serves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import DoesNotFit, HostError
from ..sizing.machine import machine
from ..sizing.memory import gib, node_rooms, room
from ..types.base import Unknown
from ..types.cpulist import told_cpulist
from ..types.names import base_name
from ..types.release import Instance
from .context import HostContext
from .found import Found

_FEW_CORES = 4
_OLDEST_ENGINE = (20, 10)


@dataclass(frozen=True)
class Way:
    """`text`: what the plan says. `room`: bytes that must be free when it happens."""

    beside: bool
    text: str
    room: int = 0


def way(
    context: HostContext, found: Found, wanted: Instance, instances: Mapping[str, Instance], replace: str
) -> Way:
    """How `wanted` replaces what serves. `replace`: as the manifest says.

    Raises HostError where it says beside and that can't be.
    """
    if replace == "stop-first":
        return Way(False, "stop first (replace: stop-first)")
    if not found.settled.up:
        return Way(False, "nothing serves now")
    why = _impossible(context, wanted) or _full(context, found, wanted, instances)
    if replace == "beside":
        if why:
            raise HostError(
                f"replace: beside can't be: {why}",
                where=f"{context.host.name} {wanted.model}",
                do="leave `replace` out, or make room for both at a time",
            )
        return Way(True, "beside (replace: beside)", wanted.container.memory)
    why = why or _few_cores(context)
    if why:
        return Way(False, f"stop first ({why})")
    return Way(True, "beside · both fit", wanted.container.memory)


def _impossible(context: HostContext, wanted: Instance) -> str:
    """Why the engine can't do it; empty when it can."""
    engine = context.facts.engine
    version = re.match(r"(\d+)\.(\d+)", engine.version)
    if engine.state != "running" or version is None:
        return "the engine's version is unknown"
    if (int(version[1]), int(version[2])) < _OLDEST_ENGINE:
        return f"Docker {engine.version} is older than {_OLDEST_ENGINE[0]}.{_OLDEST_ENGINE[1]}"
    if not wanted.container.publish or len(wanted.container.networks) < 2:
        return "it publishes no port that could be passed on"
    return ""


def _full(context: HostContext, found: Found, wanted: Instance, instances: Mapping[str, Instance]) -> str:
    """Why memory does not allow both; empty when it does. What runs and what will are both counted."""
    facts, reserve = context.facts, context.host.reserve.memory
    serving = found.settled.current
    if not isinstance(facts.memory.total, int) or serving is None:
        return "the host's memory is unknown"
    others = _others(context, found.name, instances)
    both = serving.memory + wanted.container.memory
    left = room(facts, reserve, {}) - sum(size for size, _ in others)
    if both > left:
        return f"both need {gib(both)} of {gib(max(0, left))}"
    mems = told_cpulist(wanted.container.cpuset_mems)
    nodes = node_rooms(facts, reserve, {})
    if len(mems) == 1 and mems <= nodes.keys():
        node = min(mems)
        left = nodes[node] - sum(size for size, bound in others if told_cpulist(bound) == mems)
        there = wanted.container.memory
        there += serving.memory if told_cpulist(serving.cpuset_mems) == mems else 0
        if there > left:
            return f"both need {gib(there)} of {gib(max(0, left))} on NUMA node {node}"
    free = facts.memory.available
    if isinstance(free, Unknown):
        return "how much memory is free is unknown"
    if wanted.container.memory > free:
        return f"the new one needs {gib(wanted.container.memory)}, {gib(free)} are free now"
    return ""


def room_for_all(context: HostContext, instances: Mapping[str, Instance]) -> bool:
    """Whether all that runs can go on running until all of `instances` have come: memory in all, on every
    NUMA node and free now, and cores enough."""
    facts, reserve = context.facts, context.host.reserve.memory
    free = facts.memory.available
    if not isinstance(facts.memory.total, int) or isinstance(free, Unknown) or _few_cores(context):
        return False
    held = _others(context, "", instances)
    new = [each.container.memory for name, each in instances.items() if name not in facts.containers]
    if sum(size for size, _ in held) > room(facts, reserve, {}) or sum(new) > free:
        return False
    return all(
        sum(size for size, bound in held if told_cpulist(bound) == {node}) <= left
        for node, left in node_rooms(facts, reserve, {}).items()
    )


def _others(context: HostContext, name: str, instances: Mapping[str, Instance]) -> list[tuple[int, str]]:
    """Limit (bytes) and NUMA nodes of all that runs or is to run beside what stands under `name`."""
    held = {
        each: (container.memory, container.cpuset_mems)
        for each, container in context.facts.containers.items()
        if container.running and base_name(each) != name
    }
    for each, instance in instances.items():
        if each != name and instance.container.memory > held.get(each, (0, ""))[0]:
            held[each] = (instance.container.memory, instance.container.cpuset_mems)
    return list(held.values())


def _few_cores(context: HostContext) -> str:
    """Why there are too few cores for two; empty when there are enough."""
    try:
        found = machine(context.facts)
    except DoesNotFit:
        return "the host's cores are unknown"
    cores = found.physical(found.cores)
    if found.limited is not None:
        cores = min(cores, math.floor(found.limited))
    if cores > _FEW_CORES:
        return ""
    return f"{found.counted(cores) if cores else 'less than a core'} for both"
