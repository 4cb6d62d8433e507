"""Deployment + Facts + Resolved → one Allocation per instance. Pure and stable.

Depends only on what lasts: usable cores, total memory, reserves, what others hold, and what already
runs. Free memory of the moment is a check of the plan, never an input here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DoesNotFit, NotYet
from ..types.allocation import Allocation, MemoryNeed
from ..types.base import from_data
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.names import container_name
from ..types.playbook import Playbook
from ..types.release import Instance, Release
from ..types.resolved import Resolved, ResolvedWeights
from .cores import Share, Wish, share_cores
from .cpulist import parse_cpulist
from .fit import largest_that_fits
from .gguf import MIB, container_limit, gguf_need, slot_tokens

_DEFAULT_CONTEXT = 8192
_HOST_RESERVE = 384 * MIB

AllocationKey = tuple[str, str, int]
"""Model, host, instance."""


def allocate(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    resolved: Resolved,
    playbooks: Mapping[str, Playbook],
) -> dict[AllocationKey, Allocation]:
    """Allocations for every placement on a host with facts. Raises DoesNotFit, naming what would fit."""
    allocations: dict[AllocationKey, Allocation] = {}
    for name, host_facts in facts.items():
        placements = [p for p in deployment.placements if p.host == name]
        if not placements:
            continue
        shares = _cores(deployment, name, host_facts, placements)
        for placement in placements:
            key = (placement.model, name, 0)
            weights = resolved.weights[f"{placement.model}@{name}"]
            playbook = playbooks[deployment.backends[placement.backend].playbook]
            allocations[key] = _one(deployment, placement, shares[placement.model], weights, playbook)
        _check_memory(deployment, name, host_facts, resolved, allocations)
    return allocations


def running_instance(deployment: str, placement: Placement, facts: Facts) -> Instance | None:
    """The spec that runs (or last ran) for a placement on this host, from its release file."""
    name = container_name(deployment, placement.model, 0)
    container = facts.containers.get(name)
    if container is None or container.mark is None or container.mark.deployment != deployment:
        return None
    document = facts.releases.get(deployment, {}).get(container.mark.release)
    return from_data(document, Release).instances.get(name) if document else None


def _cores(deployment: Deployment, host: str, facts: Facts, placements: list[Placement]) -> dict[str, Share]:
    wishes = []
    for placement in placements:
        running = running_instance(deployment.name, placement, facts)
        same = running is not None and running.cpus == placement.cpus
        wishes.append(
            Wish(
                name=placement.model,
                cpus=placement.cpus,
                running=running.container.cpuset if running is not None and same else "",
            )
        )
    pinned = {
        name: parse_cpulist(container.cpuset)
        for name, container in facts.containers.items()
        if container.running
        and container.cpuset
        and (container.mark is None or container.mark.deployment != deployment.name)
    }
    return share_cores(facts, wishes, reserve=deployment.hosts[host].reserve.cpus, pinned=pinned)


def _one(
    deployment: Deployment, placement: Placement, share: Share, weights: ResolvedWeights, playbook: Playbook
) -> Allocation:
    where = f"{placement.host} {placement.model}"
    params = {**playbook.params, **deployment.backends[placement.backend].params}
    cache = int(params.get("cache_ram_mib", 0)) * MIB
    header = weights.gguf
    if playbook.memory == "gguf" and header is not None:
        context = placement.context or min(_DEFAULT_CONTEXT, header.context_length)
        if context > header.context_length:
            raise DoesNotFit(
                f"context {context} is more than the {header.context_length} tokens the model knows",
                where=where,
                do=f"lower context to {header.context_length}",
            )
        need = gguf_need(
            header, file_bytes=weights.size, context=context, parallel=placement.parallel, cache_ram=cache
        )
    elif placement.memory is not None:
        context = placement.context or _DEFAULT_CONTEXT
        need = MemoryNeed(weights=0, repack=0, kv=0, state=0, compute=0, engine=placement.memory, cache=0)
    else:
        raise NotYet(
            f"the memory of {placement.model} can't be worked out for playbook {playbook.name}",
            where=where,
            do="say memory: for this model",
        )
    memory = placement.memory or container_limit(need.total)
    if memory < need.total:
        raise DoesNotFit(
            f"memory {_gib(memory)} is less than the {_gib(need.total)} it needs",
            where=where,
            do="leave memory out, or lower context or parallel",
        )
    cells = slot_tokens(context) * placement.parallel
    reasons = {"cpus": share.reason}
    if placement.context is None:
        reasons["context"] = f"the default: at most {_DEFAULT_CONTEXT}, and what the model was trained for"
    return Allocation(
        model=placement.model,
        host=placement.host,
        instance=0,
        cpuset=share.cpuset,
        threads=share.threads,
        threads_batch=share.batch,
        context=context,
        parallel=placement.parallel,
        context_total=cells,
        memory=memory,
        need=need,
        kept=share.kept,
        reasons=reasons,
    )


def _check_memory(
    deployment: Deployment,
    host: str,
    facts: Facts,
    resolved: Resolved,
    allocations: Mapping[AllocationKey, Allocation],
) -> None:
    total = facts.memory.total
    if not isinstance(total, int):
        raise DoesNotFit(f"the host's memory is unknown: {total.unknown}", where=host)
    reserve = deployment.hosts[host].reserve.memory
    reserve = _HOST_RESERVE if reserve is None else reserve
    others = sum(
        container.memory
        for container in facts.containers.values()
        if container.running and (container.mark is None or container.mark.deployment != deployment.name)
    )
    mine = [allocation for allocation in allocations.values() if allocation.host == host]
    wanted = sum(allocation.memory for allocation in mine)
    room = total - reserve - others
    if wanted > room:
        parts = ", ".join(f"{allocation.model} {_gib(allocation.memory)}" for allocation in mine)
        raise DoesNotFit(
            f"the models need {_gib(wanted)} ({parts}), {_gib(max(room, 0))} of {_gib(total)} can be given",
            where=host,
            do=f"{_advice(mine, resolved, wanted - room)}, or move a model to another host",
        )


def _advice(mine: list[Allocation], resolved: Resolved, excess: int) -> str:
    """How the models of a host get `excess` bytes smaller: with numbers where one of them alone can."""
    ways = []
    for allocation in mine:
        weights = resolved.weights[f"{allocation.model}@{allocation.host}"]
        if weights.gguf is None or container_limit(allocation.need.total) != allocation.memory:
            continue  # its limit is as the manifest says
        context, parallel = largest_that_fits(
            weights.gguf,
            file_bytes=weights.size,
            context=allocation.context,
            parallel=allocation.parallel,
            cache_ram=allocation.need.cache,
            room=allocation.memory - excess,
        )
        fits = [f"context {context}"] if context else []
        fits += [f"parallel {parallel}"] if parallel else []
        if fits:
            ways.append(f"{allocation.model} would fit with {' or '.join(fits)}")
    return ", or ".join([*ways, "pick a smaller quantisation"])


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB" if size < 10 << 30 else f"{size / (1 << 30):.1f} GiB"
