"""Deployment + Facts + Resolved → one Allocation per instance. Pure and stable.

Depends only on what lasts: usable cores, total memory, reserves, what others hold, and what already
runs. Free memory of the moment is a check of the plan, never an input here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from ..errors import DoesNotFit, NoRoom
from ..types.allocation import Allocation
from ..types.deployment import Deployment, HostPath, Placement
from ..types.facts import Container, Facts
from ..types.names import container_name
from ..types.playbook import Playbook
from ..types.release import Instance, read_release
from ..types.resolved import Resolved
from .cores import Share, Wish, share_cores
from .cpulist import parse_cpulist
from .demand import DEFAULT_CONTEXT, Demand, demand, reasons_of
from .fit import ways_to_fit
from .memory import Binding, Seat, bind, gib, room, shown


def allocate(
    deployment: Deployment,
    host: str,
    facts: Facts,
    resolved: Resolved,
    playbooks: Mapping[str, Playbook],
    *,
    repack: bool = False,
    fleet: Mapping[str, Facts] | None = None,
) -> dict[str, Allocation]:
    """Model → allocation, for every placement on `host`. Raises DoesNotFit, naming what would fit.

    repack: as if nothing of ours ran, so that all is dealt out anew. fleet: facts of every host, among which
    another place is looked for.
    """
    site = _Site(deployment, resolved, playbooks, repack)
    try:
        return site.allocate(host, facts)
    except NoRoom as error:
        raise NoRoom(
            error.what,
            where=error.where,
            do=", or ".join(part for part in (error.do, site.elsewhere(host, facts, fleet or {})) if part),
        ) from None


def running_instance(deployment: str, model: str, facts: Facts) -> Instance | None:
    """The spec that runs (or last ran) for a model on this host; None without a container or its record."""
    name = container_name(deployment, model, 0)
    container = facts.containers.get(name)
    if container is None or container.mark is None or container.mark.deployment != deployment:
        return None
    release = read_release(facts.releases.get(deployment, {}).get(container.mark.release))
    return release.instances.get(name) if release else None


@dataclass(frozen=True)
class _Site:
    deployment: Deployment
    resolved: Resolved
    playbooks: Mapping[str, Playbook]
    repack: bool

    def allocate(self, host: str, facts: Facts) -> dict[str, Allocation]:
        placements = [placement for placement in self.deployment.placements if placement.host == host]
        if not placements:
            return {}
        reserve = self.deployment.hosts[host].reserve
        others = {name: each for name, each in facts.containers.items() if self._is_others(each)}
        running = {placement.model: self._running(placement.model, facts) for placement in placements}
        shares = share_cores(
            facts,
            [self._wish(placement, running[placement.model], facts) for placement in placements],
            reserve=reserve.cpus,
            pinned={name: parse_cpulist(each.cpuset) for name, each in others.items() if each.cpuset},
        )
        demands = {placement.model: self._demand(placement, facts) for placement in placements}
        kept = {model: self._kept_limit(demands[model], running[model]) for model in demands}
        limits = {model: kept[model] or demands[model].limit for model in demands}
        for model, each in demands.items():
            _refuse_small(each, limits[model])
        self._refuse_full(host, facts, room(facts, reserve.memory, others), demands, limits)
        seats = {
            model: Seat(
                limit=limits[model],
                nodes=shares[model].nodes,
                bound=_bound(shares[model], running[model]) if kept[model] else None,
            )
            for model in demands
        }
        bindings = bind(facts, seats, reserve.memory, others)
        return {
            model: _allocation(
                demands[model], shares[model], limits[model], bindings[model], kept[model] is not None
            )
            for model in demands
        }

    def elsewhere(self, host: str, facts: Facts, fleet: Mapping[str, Facts]) -> str:
        """Which model could leave this full host, and which other one has room for it: tried, both."""
        ways = []
        for placement in self.deployment.placements:
            if placement.host != host or isinstance(placement.source, HostPath):
                continue
            without = self._with(other for other in self.deployment.placements if other is not placement)
            if without._fits(host, facts):
                ways += [
                    f"move {placement.model} to {other}, where it fits"
                    for other, known in fleet.items()
                    if other != host and self._takes(placement, other, known)
                ][:1]
        if ways:
            return ", or ".join(ways)
        others = [name for name in self.deployment.hosts if name != host]
        return "use another host" + (" (none of this manifest is known to have room)" if others else "")

    def _takes(self, placement: Placement, host: str, facts: Facts) -> bool:
        """Whether another host would run it beside all it has."""
        mine = self.deployment.placements
        target = self.deployment.hosts.get(host)
        here = any(other.model == placement.model and other.host == host for other in mine)
        if (
            target is None
            or target.retired
            or here
            or facts.root == "none"
            or not self._runs(placement, facts)
        ):
            return False
        moved = msgspec.structs.replace(placement, host=host)
        weights = dict(self.resolved.weights)
        weights[f"{placement.model}@{host}"] = weights[f"{placement.model}@{placement.host}"]
        site = self._with((*mine, moved), msgspec.structs.replace(self.resolved, weights=weights))
        return site._fits(host, facts)

    def _runs(self, placement: Placement, facts: Facts) -> bool:
        """Whether its image was built for that machine."""
        image = self.resolved.images.get(placement.backend)
        known = () if image is None else image.platforms
        return not known or any(each.split("/")[1:2] == [facts.os.arch] for each in known)

    def _fits(self, host: str, facts: Facts) -> bool:
        placements = [placement for placement in self.deployment.placements if placement.host == host]
        if any(f"{each.model}@{host}" not in self.resolved.weights for each in placements):
            return False  # nobody looked up what else that host is to run
        try:
            self.allocate(host, facts)
        except DoesNotFit:
            return False
        return True

    def _with(self, placements: Iterable[Placement], resolved: Resolved | None = None) -> _Site:
        deployment = msgspec.structs.replace(self.deployment, placements=tuple(placements))
        return replace(self, deployment=deployment, resolved=resolved or self.resolved)

    def _is_others(self, container: Container) -> bool:
        """Whether it is somebody else's and holds what it has: a foreign one that runs, another deployment's
        in any case (it may run again)."""
        if container.mark is None:
            return container.running
        return container.mark.deployment != self.deployment.name

    def _running(self, model: str, facts: Facts) -> Instance | None:
        return None if self.repack else running_instance(self.deployment.name, model, facts)

    def _wish(self, placement: Placement, running: Instance | None, facts: Facts) -> Wish:
        """With the cpuset it has now and may keep: its wish did not change, or its record is lost."""
        wish = Wish(name=placement.model, cpus=placement.cpus)
        if running is not None:
            if running.cpus != placement.cpus:
                return wish
            return replace(
                wish, running=running.container.cpuset, threads=running.threads, batch=running.threads_batch
            )
        container = facts.containers.get(container_name(self.deployment.name, placement.model, 0))
        ours = container is not None and container.mark is not None
        if self.repack or container is None or not ours or self._is_others(container):
            return wish
        return replace(wish, running=container.cpuset)

    def _demand(self, placement: Placement, facts: Facts) -> Demand:
        backend = self.deployment.backends[placement.backend]
        playbook = self.playbooks[backend.playbook]
        weights = self.resolved.weights[f"{placement.model}@{placement.host}"]
        return demand(placement, weights, playbook, {**playbook.params, **backend.params}, facts)

    def _kept_limit(self, wanted: Demand, running: Instance | None) -> int | None:
        """The limit of the running container stays while the wishes are the same and it covers the need: a
        finer estimate in a newer version is no reason for a restart."""
        if running is None or running.container.memory < wanted.need.total:
            return None
        placement = wanted.placement
        now = (wanted.context, placement.parallel, wanted.tree, placement.memory)
        same = (running.context, running.parallel, running.tree, running.memory_asked) == now
        # A parameter that the record does not know of came with a newer playbook: nobody wished for it.
        told = all(running.params.get(name, value) == value for name, value in wanted.params.items())
        return running.container.memory if same and told else None

    def _refuse_full(
        self,
        host: str,
        facts: Facts,
        left: int,
        demands: Mapping[str, Demand],
        limits: Mapping[str, int],
    ) -> None:
        wanted = sum(limits.values())
        if wanted <= left:
            return
        ways = []
        for model, each in demands.items():
            fits = ways_to_fit(each, limits[model] - (wanted - left))
            ways += [f"{model} would fit with {' or '.join(fits)}"] if fits else []
        raise NoRoom(
            f"the models need {gib(wanted)} ({shown(list(limits.items()))}), {gib(max(left, 0))} of "
            f"{gib(facts.memory.total) if isinstance(facts.memory.total, int) else '?'} can be given",
            where=host,
            do=", or ".join(ways) or "pick a smaller model or quantisation",
        )


def _refuse_small(wanted: Demand, limit: int) -> None:
    """A limit the manifest sets that does not cover the need."""
    if limit >= wanted.need.total:
        return
    placement = msgspec.structs.replace(wanted.placement, memory=None)
    ways = ways_to_fit(replace(wanted, placement=placement), limit)
    raise DoesNotFit(
        f"memory {gib(limit)} is less than the {gib(wanted.need.total)} it needs",
        where=f"{wanted.placement.host} {wanted.placement.model}",
        do=", or ".join(["leave memory out", *([f"it would fit with {' or '.join(ways)}"] if ways else [])]),
    )


def _bound(share: Share, running: Instance | None) -> str | None:
    """What a container that stays as it is is bound to."""
    return running.container.cpuset_mems if running is not None and share.kept else None


def _allocation(wanted: Demand, share: Share, limit: int, binding: Binding, kept: bool) -> Allocation:
    placement = wanted.placement
    reasons = {**share.reasons, **reasons_of(wanted), "mems": binding.reason}
    if placement.context is None:
        reasons["context"] = f"the default: at most {DEFAULT_CONTEXT}, and what the model was trained for"
    if placement.memory is None:
        reasons["limit"] = "kept from what runs" if kept else "the need and a little more, in whole steps"
    else:
        reasons["limit"] = "`memory` as asked"
    warnings = [*share.warnings, *binding.warnings]
    shape = wanted.measures.shape if wanted.measures else None
    if placement.task == "chat" and shape is not None and shape.chat_template is False:
        warnings.append(
            "its files carry no chat template: requests for chats may be refused, or answered as to another "
            "model's way of writing them"
        )
    return Allocation(
        model=placement.model,
        host=placement.host,
        instance=0,
        cpuset=share.cpuset,
        mems=binding.mems,
        threads=share.threads,
        threads_batch=share.batch,
        context=wanted.context,
        parallel=placement.parallel,
        context_total=wanted.cells,
        memory=limit,
        need=wanted.need,
        kept=share.kept,
        reasons=reasons,
        warnings=tuple(warnings),
    )
