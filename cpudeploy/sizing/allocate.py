"""Deployment + Facts + Resolved → one Allocation per instance. Pure and stable.

Depends only on what lasts: usable cores, total memory, reserves, what others hold, and what already
runs. Free memory of the moment is a check of the plan, never an input here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DoesNotFit, NotYet
from ..types.allocation import Allocation, MemoryNeed
from ..types.base import Unknown
from ..types.deployment import Deployment, Placement
from ..types.facts import Container, Facts
from ..types.names import container_name
from ..types.playbook import Playbook
from ..types.release import Instance, read_release
from ..types.resolved import Resolved, ResolvedWeights
from ..types.shape import Tensors
from .cores import Share, Wish, share_cores
from .cpulist import parse_cpulist
from .fit import largest_that_fits
from .gguf import MIB, container_limit, gguf_need, slot_tokens

_DEFAULT_CONTEXT = 8192
_HOST_RESERVE = 384 * MIB


def allocate(
    deployment: Deployment,
    host: str,
    facts: Facts,
    resolved: Resolved,
    playbooks: Mapping[str, Playbook],
) -> dict[str, Allocation]:
    """Model → allocation, for every placement on `host`. Raises DoesNotFit, naming what would fit."""
    placements = [placement for placement in deployment.placements if placement.host == host]
    if not placements:
        return {}
    running = {p.model: running_instance(deployment.name, p.model, facts) for p in placements}
    shares = _cores(deployment, facts, placements, running)
    allocations = {}
    for placement in placements:
        weights = resolved.weights[f"{placement.model}@{host}"]
        playbook = playbooks[deployment.backends[placement.backend].playbook]
        allocations[placement.model] = _one(
            deployment, placement, shares[placement.model], weights, playbook, running[placement.model]
        )
    _check_memory(deployment, host, facts, resolved, list(allocations.values()))
    return allocations


def running_instance(deployment: str, model: str, facts: Facts) -> Instance | None:
    """The spec that runs (or last ran) for a model on this host; None without a container or its record."""
    name = container_name(deployment, model, 0)
    container = facts.containers.get(name)
    if container is None or container.mark is None or container.mark.deployment != deployment:
        return None
    release = read_release(facts.releases.get(deployment, {}).get(container.mark.release))
    return release.instances.get(name) if release else None


def _cores(
    deployment: Deployment,
    facts: Facts,
    placements: list[Placement],
    running: Mapping[str, Instance | None],
) -> dict[str, Share]:
    wishes = [
        Wish(name=p.model, cpus=p.cpus, running=_kept_cpuset(deployment.name, p, running[p.model], facts))
        for p in placements
    ]
    pinned = {
        name: parse_cpulist(container.cpuset)
        for name, container in facts.containers.items()
        if container.cpuset and _holds(container, deployment.name)
    }
    reserve = deployment.hosts[facts.host].reserve.cpus
    return share_cores(facts, wishes, reserve=reserve, pinned=pinned)


def _kept_cpuset(deployment: str, placement: Placement, running: Instance | None, facts: Facts) -> str:
    """The cpuset a model has now and may keep: its wish did not change (or its record is lost)."""
    if running is not None:
        return running.container.cpuset if running.cpus == placement.cpus else ""
    container = facts.containers.get(container_name(deployment, placement.model, 0))
    ours = container is not None and container.mark is not None and container.mark.deployment == deployment
    return container.cpuset if container is not None and ours else ""


def _holds(container: Container, deployment: str) -> bool:
    """Whether somebody else's container counts: it runs, or it is another deployment's and may run again."""
    if container.mark is None:
        return container.running
    return container.mark.deployment != deployment


def _one(
    deployment: Deployment,
    placement: Placement,
    share: Share,
    weights: ResolvedWeights,
    playbook: Playbook,
    running: Instance | None,
) -> Allocation:
    where = f"{placement.host} {placement.model}"
    params = {**playbook.params, **deployment.backends[placement.backend].params}
    cache = int(params.get("cache_ram_mib", 0)) * MIB
    shape, tensors = weights.shape, weights.tensors
    if playbook.memory == "gguf" and shape is not None and tensors is not None:
        trained = shape.context_length or max(placement.context or 0, _DEFAULT_CONTEXT)  # 0: it does not say
        context = placement.context or min(_DEFAULT_CONTEXT, trained)
        if context > trained:
            raise DoesNotFit(
                f"context {context} is more than the {trained} tokens the model knows",
                where=where,
                do=f"lower context to {trained}",
            )
        need = gguf_need(
            shape,
            tensors,
            file_bytes=_file_bytes(weights.size, tensors),
            context=context,
            parallel=placement.parallel,
            cache_ram=cache,
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
    if running is not None and _keeps_memory(running, placement, context, weights, need):
        memory = running.container.memory
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


def _file_bytes(size: int | Unknown, tensors: Tensors) -> int:
    """Bytes of a model's files; where nobody told their size those of its tensors, which are most of it."""
    return tensors.size if isinstance(size, Unknown) else size


def _keeps_memory(
    running: Instance, placement: Placement, context: int, weights: ResolvedWeights, need: MemoryNeed
) -> bool:
    """The limit of the running container stays while the wishes are the same and it covers the need: a
    finer estimate in a newer version is no reason for a restart."""
    now = (context, placement.parallel, weights.tree, placement.memory)
    same = (running.context, running.parallel, running.tree, running.memory_asked) == now
    return same and running.container.memory >= need.total


def _check_memory(
    deployment: Deployment, host: str, facts: Facts, resolved: Resolved, mine: list[Allocation]
) -> None:
    total = facts.memory.total
    if not isinstance(total, int):
        raise DoesNotFit(f"the host's memory is unknown: {total.unknown}", where=host)
    reserve = deployment.hosts[host].reserve.memory
    reserve = _HOST_RESERVE if reserve is None else reserve
    others = sum(
        container.memory for container in facts.containers.values() if _holds(container, deployment.name)
    )
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
        if (
            weights.shape is None
            or weights.tensors is None
            or container_limit(allocation.need.total) != allocation.memory
        ):
            continue  # its limit is as the manifest says
        context, parallel = largest_that_fits(
            weights.shape,
            weights.tensors,
            file_bytes=_file_bytes(weights.size, weights.tensors),
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
