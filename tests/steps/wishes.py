"""From placements to wanted instances, as planning does it, for the pure steps."""

from __future__ import annotations

from cpudeploy.steps.context import HostContext
from cpudeploy.steps.wanted import wanted_instance
from cpudeploy.types.allocation import Allocation, MemoryNeed
from cpudeploy.types.deployment import Placement
from cpudeploy.types.facts import Facts
from cpudeploy.types.names import container_name
from cpudeploy.types.playbook import Playbook
from cpudeploy.types.release import Instance
from tests.factories import GIB, deployment, facts, playbooks, resolved


def context_of(*placements: Placement, found: Facts | None = None) -> HostContext:
    """Host `one` of a deployment of these placements."""
    wanted = deployment(*placements)
    return HostContext(
        deployment=wanted,
        host=wanted.hosts["one"],
        facts=found or facts(),
        resolved=resolved(*placements),
    )


def allocation_of(placement: Placement) -> Allocation:
    """What sizing may have given it: two cores and 2 GiB."""
    need = MemoryNeed(weights=98_000_000, repack=0, kv=0, state=0, compute=0, engine=0, cache=0)
    return Allocation(
        model=placement.model,
        host=placement.host,
        instance=0,
        cpuset="0-1",
        threads=2,
        threads_batch=2,
        context=2048,
        parallel=2,
        context_total=4096,
        memory=2 * GIB,
        need=need,
    )


def instances_of(context: HostContext, playbook: Playbook | None = None) -> dict[str, Instance]:
    """Every instance wanted on the host, by container name."""
    books = playbooks() | ({"llama-cpp": playbook} if playbook else {})
    wanted, given = context.deployment, context.resolved
    return {
        container_name(wanted.name, placement.model, 0): wanted_instance(
            context,
            placement,
            allocation_of(placement),
            wanted.backends[placement.backend],
            books["llama-cpp"],
            given.images[placement.backend],
            given.weights[f"{placement.model}@one"],
        )
        for placement in wanted.placements
    }
