"""All numbers of one host: cores from `cores`, memory from `demand` and `memory`, kept or fresh. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from ..errors import DoesNotFit, NoRoom
from ..types.allocation import Allocation
from ..types.cpulist import told_cpulist
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.release import Instance
from ..types.resolved import Resolved
from .cores import Share, share_cores
from .demand import DEFAULT_CONTEXT, Demand, demand, reasons_of
from .fit import ways_to_fit
from .memory import Binding, Seat, bind, gib, room, shown
from .running import fresh_wish, is_others, kept_limit, kept_wish, running_instance


@dataclass(frozen=True)
class Sizing:
    """What numbers come from beside a host's facts. repack: as if nothing of ours ran."""

    deployment: Deployment
    resolved: Resolved
    playbooks: Mapping[str, Playbook]
    repack: bool = False

    def allocate(self, host: str, facts: Facts) -> dict[str, Allocation]:
        """Model → allocation. Raises NoRoom for a full host, DoesNotFit for what no host could give."""
        placements = [placement for placement in self.deployment.placements if placement.host == host]
        if not placements:
            return {}
        name, reserve = self.deployment.name, self.deployment.hosts[host].reserve
        others = {key: each for key, each in facts.containers.items() if is_others(each, name)}
        shares = share_cores(
            facts,
            [fresh_wish(each) if self.repack else kept_wish(name, each, facts) for each in placements],
            reserve=reserve.cpus,
            pinned={key: cpus for key, each in others.items() if (cpus := told_cpulist(each.cpuset))},
        )
        asks = [self._ask(each, shares[each.model], facts) for each in placements]
        _refuse_full(facts, room(facts, reserve.memory, others), asks)
        bindings = bind(facts, {each.model: each.seat for each in asks}, reserve.memory, others)
        return {each.model: _allocation(each, bindings[each.model]) for each in asks}

    def _ask(self, placement: Placement, share: Share, facts: Facts) -> _Ask:
        backend = self.deployment.backends[placement.backend]
        playbook = self.playbooks[backend.playbook]
        weights = self.resolved.weights[f"{placement.model}@{placement.host}"]
        params = playbook.params_with(backend.params, placement.params)
        wanted = demand(placement, weights, playbook, params, facts)
        name = self.deployment.name
        running = None if self.repack else running_instance(name, placement.model, facts)
        kept = kept_limit(wanted, running)
        if kept is None:
            _refuse_small(wanted)
        return _Ask(wanted, share, kept, running)


@dataclass(frozen=True)
class _Ask:
    """One model before the host's memory is looked at. kept: the limit it keeps, None for a new one."""

    wanted: Demand
    share: Share
    kept: int | None
    running: Instance | None

    @property
    def model(self) -> str:
        return self.wanted.placement.model

    @property
    def limit(self) -> int:
        return self.wanted.limit if self.kept is None else self.kept

    @property
    def seat(self) -> Seat:
        stays = self.running is not None and self.kept is not None and self.share.kept
        bound = self.running.container.cpuset_mems if self.running is not None and stays else None
        return Seat(limit=self.limit, nodes=self.share.nodes, bound=bound)


def _refuse_small(wanted: Demand) -> None:
    """A limit the manifest sets that does not cover the need."""
    if wanted.limit >= wanted.need.total:
        return
    placement = msgspec.structs.replace(wanted.placement, memory=None)
    ways = ways_to_fit(replace(wanted, placement=placement), wanted.limit)
    raise DoesNotFit(
        f"memory {gib(wanted.limit)} is less than the {gib(wanted.need.total)} it needs",
        where=f"{wanted.placement.host} {wanted.placement.model}",
        do=", or ".join(["leave memory out", *([f"it would fit with {' or '.join(ways)}"] if ways else [])]),
    )


def _refuse_full(facts: Facts, left: int, asks: list[_Ask]) -> None:
    """More than the host can give: named with what each model alone could do about it."""
    excess = sum(each.limit for each in asks) - left
    if excess <= 0:
        return
    fitting = {each.model: ways_to_fit(each.wanted, each.limit - excess) for each in asks}
    ways = [f"{model} would fit with {' or '.join(fits)}" for model, fits in fitting.items() if fits]
    total = facts.memory.total
    of = f" of {gib(total)}" if isinstance(total, int) else ""
    raise NoRoom(
        f"the models need {gib(left + excess)} ({shown([(each.model, each.limit) for each in asks])}), "
        f"{gib(max(left, 0))}{of} can be given",
        where=facts.host,
        do=", or ".join(ways) or "pick a smaller model or quantisation",
    )


def _allocation(ask: _Ask, binding: Binding) -> Allocation:
    wanted, share, placement = ask.wanted, ask.share, ask.wanted.placement
    reasons = {**share.reasons, **reasons_of(wanted), "mems": binding.reason, "limit": _limit_reason(ask)}
    if placement.context is None:
        reasons["context"] = f"the default: at most {DEFAULT_CONTEXT}, and what the model was trained for"
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
        memory=ask.limit,
        need=wanted.need,
        kept=share.kept,
        reasons=reasons,
        warnings=(*share.warnings, *binding.warnings, *_warnings(ask), *placement.warnings),
    )


def _limit_reason(ask: _Ask) -> str:
    if ask.wanted.placement.memory is not None:
        return "`memory` as asked"
    return "the need and a little more, in whole steps" if ask.kept is None else "kept from what runs"


def _warnings(ask: _Ask) -> list[str]:
    told = []
    need = ask.wanted.need.total
    if ask.limit < need:
        told.append(
            f"its limit of {gib(ask.limit)} is kept from what runs, and it may need {gib(need)} as is known "
            "now: `--repack` gives it that"
        )
    shape = ask.wanted.measures.shape if ask.wanted.measures else None
    if ask.wanted.placement.task == "chat" and shape is not None and shape.chat_template is False:
        told.append(
            "its files carry no chat template: requests for chats may be refused, or answered as to another "
            "model's way of writing them"
        )
    return told
