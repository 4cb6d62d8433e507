"""The plan that takes away what hosts keep of a deployment and nobody needs any more. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..errors import CpudeployError
from ..steps.context import HostContext
from ..steps.prune import prune_changes
from ..types.deployment import Deployment
from ..types.facts import Facts
from ..types.plan import HostPlan, Plan
from ..types.resolved import Resolved
from .headline import headline
from .questions import questions

KEPT = 5
"""Releases that stay on a host beside those in use, unless told otherwise."""


def prune_plan(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    *,
    origin: str,
    keep: int = KEPT,
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
) -> Plan:
    """What of `deployment` goes, host by host; `steps.prune` says what stays. A host without facts, or where
    what is in use can't be seen, stands in it with the reason."""
    hosts = {}
    for name, host in deployment.hosts.items():
        plan = HostPlan(host=host, headline="", changes=())
        if name in (unreachable or {}):
            plan = msgspec.structs.replace(plan, unreachable=(unreachable or {})[name])
        elif name in (unknown or {}):
            plan = msgspec.structs.replace(plan, unknown=(unknown or {})[name])
        elif name in facts:
            context = HostContext(deployment=deployment, host=host, facts=facts[name], resolved=Resolved())
            plan = _host_plan(context, keep)
        else:
            continue
        hosts[name] = plan
    return Plan(
        deployment=deployment.name,
        base=deployment.base,
        origin=origin,
        registries=deployment.registries,
        hosts=hosts,
    )


def _host_plan(context: HostContext, keep: int) -> HostPlan:
    asked = questions(context.deployment, context.host)
    plan = HostPlan(
        host=context.host,
        headline=headline(context.facts),
        changes=(),
        questions=tuple((question.kind, question.key, question.arg) for question in asked),
    )
    try:
        changes, warnings = prune_changes(context, keep)
    except CpudeployError as error:
        return msgspec.structs.replace(plan, unknown=error.sentence)
    return msgspec.structs.replace(plan, changes=changes, warnings=warnings)
