"""Deployments that were changed again and again on one host in memory: what they leave is there to be pruned."""

from __future__ import annotations

from typing import Any

import msgspec

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from cpudeploy.types.base import from_json, to_json
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import Plan
from cpudeploy.types.resolved import Place, Resolved
from tests.factories import deployment, placement, playbooks, resolved
from tests.simulated import SimulatedHost

ALICE, BOB = "alice", "bob"
FIRST_CPU = {ALICE: 0, BOB: 2}


def wish(
    name: str, *, context: int = 2048, weights: int = 1, image: int = 1, models: int = 1, **changes: Any
) -> tuple[Deployment, Resolved]:
    """A deployment on host `one`, and what registries and Hubs say of it."""
    placements = [
        placement(f"m{number}", port=8100 + cpu, context=context, cpus=str(cpu), **changes)
        for number, cpu in enumerate(range(FIRST_CPU[name], FIRST_CPU[name] + models))
    ]
    wanted = msgspec.structs.replace(deployment(*placements), name=name)
    given = resolved(*placements)
    digest = f"sha256:{image:064x}"
    place = Place(reference=f"mirror.corp/llama@{digest}", digest=digest, registry="mirror.corp")
    images = {"llama": msgspec.structs.replace(given.images["llama"], digest=digest, places=(place,))}
    known = {
        key: msgspec.structs.replace(
            each,
            tree=f"org-{weights}",
            files=(
                msgspec.structs.replace(each.files[0], sha256=f"{weights:08x}" * 8, size=weights * 10**9),
            ),
        )
        for key, each in given.weights.items()
    }
    return wanted, msgspec.structs.replace(given, images=images, weights=known)


def through_json(plan: Plan) -> Plan:
    return from_json(to_json(plan), Plan)


def apply(wanted: Deployment, given: Resolved, host: SimulatedHost) -> HostOutcome:
    plan = make_plan(wanted, playbooks(), {"one": host.facts()}, given, origin="here")
    return run(plan, host)


def run(plan: Plan, host: SimulatedHost) -> HostOutcome:
    return execute(through_json(plan), lambda _: host, lambda event: None).hosts["one"]


def upgraded(host: SimulatedHost, name: str, count: int) -> Deployment:
    """`count` releases, each with weights and an image of its own; the last wish."""
    for number in range(1, count + 1):
        wanted, given = wish(name, context=1024 + 64 * number, weights=number, image=number)
        assert apply(wanted, given, host).status == "done"
    return wanted
