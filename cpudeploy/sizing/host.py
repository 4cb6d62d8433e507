"""All numbers of one host: cores from `cores`, memory from `demand` and `memory`, kept or fresh. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ..errors import DoesNotFit, NoRoom
from ..types.allocation import Allocation
from ..types.cpulist import parse_cpulist, told_cpulist
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.release import Instance
from ..types.resolved import Resolved
from .cores import Share, Wish, share_cores
from .demand import DEFAULT_CONTEXT, Demand, demand, reasons_of, refuse_short_cache
from .fit import ways_to_fit
from .machine import machine
from .memory import Binding, Seat, bind, gib, node_rooms, room, shown
from .paged.kv import cache_bytes, whole_requests
from .paged.measures import PagedMeasures
from .ranks import Split, divides, nodes_of, rank_cpus, split_of
from .running import is_others, kept_limit, kept_wish, ranks_of, running_instance


@dataclass(frozen=True)
class Sizing:
    """What numbers come from beside a host's facts. repack: as if nothing of ours ran."""

    deployment: Deployment
    resolved: Resolved
    playbooks: Mapping[str, Playbook]
    repack: bool = False

    def allocate(self, host: str, facts: Facts, awaited: Sequence[Placement] = ()) -> dict[str, Allocation]:
        """Model → allocation, with cores left to what is `awaited`. Raises NoRoom for a full host, DoesNotFit
        for what no host could give."""
        placements = [placement for placement in self.deployment.placements if placement.host == host]
        if not placements:
            return {}
        name, reserve = self.deployment.name, self.deployment.hosts[host].reserve
        others = {key: each for key, each in facts.containers.items() if is_others(each, name)}
        # Of the nodes themselves, since what others have there may change from day to day.
        rooms = node_rooms(facts, reserve.memory, {})
        nodes = {core.node for core in machine(facts).cores}
        rooms = {node: size for node, size in rooms.items() if node in nodes}
        wanted = [self._demand(each, facts) for each in placements]
        splits = {each.placement.model: split_of(each, rooms) for each in wanted}
        wishes = [self._wish(each, splits[each.placement.model], facts) for each in wanted]
        pinned = {key: cpus for key, each in others.items() if (cpus := told_cpulist(each.cpuset))}
        shares = _shares(facts, wishes, awaited, reserve.cpus, pinned)
        asks = [
            self._ask(each, shares[each.placement.model], splits[each.placement.model], facts)
            for each in wanted
        ]
        _refuse_full(facts, room(facts, reserve.memory, others), asks)
        bindings = bind(facts, {each.model: each.seat for each in asks}, reserve.memory, others)
        return {each.model: _allocation(each, bindings[each.model]) for each in asks}

    def _demand(self, placement: Placement, facts: Facts) -> Demand:
        backend = self.deployment.backends[placement.backend]
        weights = self.resolved.weights[f"{placement.model}@{placement.host}"]
        return demand(placement, weights, self.playbooks[backend.playbook], backend, facts)

    def _wish(self, wanted: Demand, split: Split, facts: Facts) -> Wish:
        placement = wanted.placement
        wish = Wish(
            name=placement.model,
            cpus=placement.cpus,
            nodes=split.ranks if wanted.bound else 0,
            homes=split.homes,
            bound=wanted.bound,
        )
        if self.repack:
            return wish
        playbook = self.deployment.backends[placement.backend].playbook
        return kept_wish(self.deployment.name, placement, playbook, facts, wish)

    def _ask(self, wanted: Demand, share: Share, split: Split, facts: Facts) -> _Ask:
        placement = wanted.placement
        running = None if self.repack else running_instance(self.deployment.name, placement.model, facts)
        image = self.resolved.images.get(placement.backend)
        playbook = self.deployment.backends[placement.backend].playbook
        kept = kept_limit(wanted, running, playbook, image.reference if image is not None else "")
        stays = running if kept is not None and share.kept else None
        ranks = _ranks(wanted, share, split.ranks, stays)
        if wanted.bound and running is not None and ranks_of(running) not in (0, ranks):
            kept = None  # of another number of parts
        wanted = wanted.split(ranks)
        lists = rank_cpus(share.cpuset, share.threads, facts, ranks) if wanted.bound else ()
        if kept is None:
            refuse_short_cache(wanted)
            _refuse_small(wanted)
        elif running is not None and running.kv:
            # What the engine was told stays, even if it would be counted otherwise today.
            wanted = replace(wanted, need=msgspec.structs.replace(wanted.need, kv=running.kv))
        return _Ask(
            wanted=wanted,
            share=share,
            kept=kept,
            running=running,
            lists=lists,
            nodes=nodes_of(lists, facts) or share.nodes,
        )


def _shares(
    facts: Facts,
    wishes: Sequence[Wish],
    awaited: Sequence[Placement],
    reserve: int | None,
    pinned: Mapping[str, frozenset[int]],
) -> dict[str, Share]:
    """Cores for all `wishes`. What is `awaited` counts as a taker, lest it finds none left when it comes;
    where that can't be, it does not stand in the others' way."""
    to_come = [Wish(name=each.model, cpus=each.cpus) for each in awaited]
    try:
        return share_cores(facts, [*wishes, *to_come], reserve=reserve, pinned=pinned)
    except DoesNotFit:
        if not to_come:
            raise
        return share_cores(facts, wishes, reserve=reserve, pinned=pinned)


def _ranks(wanted: Demand, share: Share, needed: int, stays: Instance | None) -> int:
    """Of a model that was given these cores: as many as it has, if all of it stays; else a rank for each node
    they lie in; of shared ones as many as it needs; no more than its heads can be dealt out to. Raises
    DoesNotFit where more were written by hand."""
    if not wanted.bound or min(share.nodes, default=-1) < 0:
        return 1
    shape = wanted.measures.shape if wanted.measures is not None else None
    bind = wanted.placement.bind or ""
    if "|" in bind:
        ranks = bind.count("|") + 1
        if shape is not None and shape.heads and not divides(shape, ranks):
            raise DoesNotFit(
                f"`{bind}` binds threads of {ranks} ranks, and the model's {shape.heads} heads can't be "
                "dealt out to so many",
                where=f"{wanted.placement.host} {wanted.placement.model}",
                do="bind to one list of CPUs in one NUMA node, or leave it to sizing",
            )
        return ranks
    if stays is not None and ranks_of(stays):
        return ranks_of(stays)
    most = min(len(share.nodes), needed if wanted.placement.cpus == "shared" else len(share.nodes))
    return max(ranks for ranks in range(1, most + 1) if divides(shape, ranks))


@dataclass(frozen=True)
class _Ask:
    """One model before the host's memory is looked at. kept: the limit it keeps, None for a new one. lists:
    the CPUs of each rank of an engine that binds its own threads. nodes: where its threads run."""

    wanted: Demand
    share: Share
    kept: int | None
    running: Instance | None
    lists: tuple[str, ...]
    nodes: tuple[int, ...]

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
        return Seat(
            limit=self.limit,
            nodes=self.nodes,
            bound=bound,
            ranks=len(self.lists),
            ways=lambda room: ways_to_fit(self.wanted, room),
        )

    @property
    def threads(self) -> tuple[int, int]:
        """For decoding, and for prompt batches."""
        if not self.lists:
            return self.share.threads, self.share.batch
        bound = sum(len(parse_cpulist(each)) for each in self.lists)
        return bound, bound


def _refuse_small(wanted: Demand) -> None:
    """A limit the manifest sets that does not cover the need."""
    if wanted.limit >= wanted.least:
        return
    placement = msgspec.structs.replace(wanted.placement, memory=None)
    ways = ways_to_fit(replace(wanted, placement=placement), wanted.limit)
    raise DoesNotFit(
        f"{wanted.placement.model}: memory {gib(wanted.limit)} is less than the {gib(wanted.least)} it needs",
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
    threads, batch = ask.threads
    reasons = {**share.reasons, **reasons_of(wanted), "mems": binding.reason, "limit": _limit_reason(ask)}
    if placement.context is None:
        reasons["context"] = f"the default: at most {DEFAULT_CONTEXT}, and what the model was trained for"
    return Allocation(
        model=placement.model,
        host=placement.host,
        instance=0,
        cpuset=share.cpuset,
        mems=binding.mems,
        threads=threads,
        threads_batch=batch,
        ranks=max(1, len(ask.lists)),
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
    if ask.kept is not None:
        return "kept from what runs"
    if ask.wanted.least > ask.wanted.need.total:
        return (
            "the need, the pages of its files, without room for which this version does not start, and a "
            "little more, in whole steps"
        )
    return "the need and a little more, in whole steps"


def _warnings(ask: _Ask) -> list[str]:
    told = []
    need = ask.wanted.least
    if ask.limit < need:
        told.append(
            f"its limit of {gib(ask.limit)} is kept from what runs, and it may need {gib(need)} as is known "
            "now: `--repack` gives it that"
        )
    measures = ask.wanted.measures
    shape = measures.shape if measures else None
    if isinstance(measures, PagedMeasures) and measures.serving.kv is not None:
        whole = whole_requests(measures.shape, measures.serving)
        if whole < measures.serving.parallel:
            told.append(
                f"its KV cache of {gib(measures.serving.kv)} holds {whole} of {measures.serving.parallel} "
                f"requests of {measures.serving.context} tokens: the others wait, or are begun again"
            )
        usual = cache_bytes(measures.shape, replace(measures.serving, kv=None))
        if measures.serving.kv >= 2 * usual:
            told.append(
                f"its KV cache of {gib(measures.serving.kv)} is set by hand, and {gib(usual)} hold all "
                f"{measures.serving.parallel} × {measures.serving.context} tokens: the rest only keeps "
                "beginnings of earlier requests"
            )
    if (
        ask.lists
        and len(ask.lists) < len(ask.share.nodes)
        and ask.wanted.placement.cpus not in ("auto", "shared")
    ):
        told.append(
            f"its cores lie in {len(ask.share.nodes)} NUMA nodes and its heads can't be dealt out to as "
            f"many: it runs on CPUs {'|'.join(ask.lists)} only"
        )
    if ask.wanted.placement.task == "chat" and shape is not None and shape.chat_template is False:
        told.append(
            "its files carry no chat template: requests for chats may be refused, or answered as to another "
            "model's way of writing them"
        )
    return told
