"""A plan put together from its hosts' plans. One host's trouble stands in it and is not the others'. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ..errors import CpudeployError
from ..steps.context import HostContext
from ..types.allocation import Allocation
from ..types.deployment import Deployment
from ..types.facts import Facts
from ..types.plan import Change, HostPlan, Plan
from ..types.resolved import Resolved
from .headline import headline
from .questions import questions


def plan_of_hosts(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    resolved: Resolved,
    unreachable: Mapping[str, str] | None,
    unknown: Mapping[str, str] | None,
    origin: str,
    of: Callable[[HostContext], HostPlan],
    *,
    destroy: bool = False,
) -> Plan:
    """Every host by `of`; one that can't be planned, or that told nothing, stands in it with why."""
    hosts = {}
    for name, host in deployment.hosts.items():
        nothing = HostPlan(host=host, headline="", changes=())
        if name in (unreachable or {}):
            hosts[name] = msgspec.structs.replace(nothing, unreachable=(unreachable or {})[name])
        elif name in (unknown or {}):
            hosts[name] = msgspec.structs.replace(nothing, unknown=(unknown or {})[name])
        elif name in facts:
            context = HostContext(deployment=deployment, host=host, facts=facts[name], resolved=resolved)
            try:
                hosts[name] = of(context)
            except CpudeployError as error:
                hosts[name] = not_planned(context, error)
    return Plan(
        deployment=deployment.name,
        base=deployment.base,
        origin=origin,
        registries=deployment.registries,
        hosts=hosts,
        warnings=_notes(resolved),
        destroy=destroy,
    )


def plan_of_host(
    context: HostContext,
    changes: tuple[Change, ...],
    allocations: tuple[Allocation, ...] = (),
    warnings: tuple[str, ...] = (),
) -> HostPlan:
    """A host with what is to be done there."""
    asked = questions(context.deployment, context.host)
    return HostPlan(
        host=context.host,
        headline=headline(context.facts),
        changes=changes,
        allocations=allocations,
        warnings=warnings,
        questions=tuple((question.kind, question.key, question.arg) for question in asked),
    )


def not_planned(context: HostContext, error: CpudeployError) -> HostPlan:
    """A host for which there is no way to what is wanted."""
    return HostPlan(host=context.host, headline=headline(context.facts), changes=(), unknown=error.sentence)


def _notes(resolved: Resolved) -> tuple[str, ...]:
    """What resolving had to say: places that did not answer, digests nobody could vouch for."""
    told = [f"image of {name}: {note}" for name, image in resolved.images.items() for note in image.notes]
    told += [
        f"weights of {key.partition('@')[0]}: {note}"
        for key, weights in resolved.weights.items()
        for note in weights.notes
    ]
    return tuple(dict.fromkeys(told))
