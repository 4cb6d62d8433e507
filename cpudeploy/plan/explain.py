"""From a plan to the reasons of its numbers. Pure.

In: the plan, the deployment it was made for, where settings were written. Out: `Explanation`: what each
instance gets, whether anything changes or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..types.deployment import Deployment, Placement, Positions
from ..types.explanation import Explained, Explanation
from ..types.plan import HostPlan, Plan

SETTINGS = ("source", "backend", "listen", "port", "context", "parallel", "cpus", "memory")
"""What a placement says that numbers come from."""


def explanation(plan: Plan, deployment: Deployment, positions: Positions, model: str = "") -> Explanation:
    """Of every instance, or of one model's, in manifest order."""
    mine = [each for each in deployment.placements if model in ("", each.model) and each.host in plan.hosts]
    instances = [each for placement in mine for each in _instances(placement, plan, positions)]
    hosts = dict.fromkeys(placement.host for placement in mine)
    untold = {host: tuple(_untold(plan.hosts[host], model)) for host in hosts}
    return Explanation(
        deployment=deployment.name,
        recorded=plan.recorded,
        instances=tuple(instances),
        untold={host: why for host, why in untold.items() if why},
    )


def _instances(placement: Placement, plan: Plan, positions: Positions) -> Iterator[Explained]:
    at = f"{placement.model}@{placement.host}"
    for allocation in plan.hosts[placement.host].allocations:
        if allocation.model == placement.model:
            yield Explained(
                host=placement.host,
                model=placement.model,
                backend=placement.backend,
                listen=placement.listen,
                port=placement.port + allocation.instance,
                allocation=allocation,
                written={key: positions[f"{at}.{key}"] for key in SETTINGS if f"{at}.{key}" in positions},
            )


def _untold(host: HostPlan, model: str) -> Iterator[str]:
    if host.unreachable:
        yield f"unreachable: {host.unreachable}"
    if host.unknown:
        yield host.unknown
    for name, why in host.left_out.items():
        if model in ("", name) or not name:
            yield f"{name} {why}".strip()
    if host.partial:
        yield "the engine does not run; what is there can be seen once it does"
