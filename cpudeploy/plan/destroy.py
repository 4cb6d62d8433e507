"""The plan that takes everything of a deployment away. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..steps.context import HostContext
from ..steps.remove_all import remove_all_changes
from ..types.deployment import Deployment
from ..types.facts import Facts
from ..types.plan import HostPlan, Plan
from ..types.resolved import Resolved
from .hosts import plan_of_host, plan_of_hosts
from .left_alone import applied_elsewhere, models_elsewhere, state_elsewhere, told, why_left_alone


def destroy_plan(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    *,
    origin: str,
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
    adopt: bool = False,
) -> Plan:
    """The plan that removes everything this deployment owns; engines and packages stay.

    What was applied from another `origin` stays, too, with the networks and the state it needs, unless they
    `adopt` it.
    """

    def of(context: HostContext) -> HostPlan:
        return removal_of_all(context, "destroy", origin, adopt=adopt)

    return plan_of_hosts(deployment, facts, Resolved(), unreachable, unknown, origin, of, destroy=True)


def removal_of_all(context: HostContext, why: str, origin: str, *, adopt: bool) -> HostPlan:
    """One host without this deployment."""
    elsewhere = {} if adopt else applied_elsewhere(context, (), origin)
    models = frozenset[str]() if adopt else models_elsewhere(context, origin)
    last = "" if adopt else state_elsewhere(context, origin)
    changes = remove_all_changes(
        context,
        why,
        spared=elsewhere.keys(),
        spared_models=models,
        keep_state=bool(elsewhere or last),
    )
    left = told(context, elsewhere) or ({"state": why_left_alone(last)} if last else {})
    return msgspec.structs.replace(plan_of_host(context, changes), unplanned=left)
