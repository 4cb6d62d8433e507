"""The plan that takes away what hosts keep of a deployment and nobody needs any more. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import HostError
from ..steps.context import HostContext
from ..steps.prune import prune_changes
from ..types.deployment import Deployment
from ..types.facts import Facts
from ..types.plan import HostPlan, Plan
from ..types.release import by_age
from ..types.resolved import Resolved
from .hosts import plan_of_host, plan_of_hosts
from .releases import current_release
from .rollback import target


def prune_plan(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    *,
    keep: int,
    unfinished: bool = False,
    origin: str,
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
) -> Plan:
    """What of `deployment` goes, host by host: all releases but those in use, the one a rollback leads to and
    the newest `keep` of the others, and what only they needed; with `unfinished` also what was fetched and no
    release came to name. A host where what is in use can't be seen stands in it with the reason."""

    def of(context: HostContext) -> HostPlan:
        changes, warnings = prune_changes(
            context, keep, _way_back(deployment.name, context.facts), unfinished=unfinished
        )
        return plan_of_host(context, changes, warnings=warnings)

    return plan_of_hosts(deployment, facts, Resolved(), unreachable, unknown, origin, of)


def _way_back(deployment: str, facts: Facts) -> str:
    """The release that a rollback leads to; where nobody wrote down what was proven, the one before."""
    try:
        return target(deployment, facts, "").id
    except HostError:
        documents = facts.releases.get(deployment, {})
        current = current_release(deployment, facts) or next(reversed(by_age(documents)), "")
        known = by_age({*documents, current})
        return next(reversed(known[: known.index(current)]), "")
