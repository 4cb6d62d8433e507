"""What could run where: each quantisation of a model on each of its hosts, tried. Pure.

In: what `allocate` takes. Out: a Recommendation a placement. Whether something fits is never worked out here:
it is what `allocate` says of the manifest with that quantisation, context and parallel written in it, beside
all else that the host runs and is to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from ..errors import CpudeployError, DoesNotFit
from ..types.allocation import Allocation
from ..types.base import Unknown
from ..types.cpulist import parse_cpulist
from ..types.deployment import Deployment, HuggingFace, ModelScope, Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.recommendation import Choice, Combination, EngineAdvice, Recommendation, Speed
from ..types.resolved import Resolved, ResolvedWeights, UnreadFile
from ..types.shape import ModelShape, Tensors, Variant
from .advice import advise
from .allocate import allocate
from .demand import DEFAULT_CONTEXT, demand
from .engines import best_by_llama, by_llama, by_vllm, engine_advice
from .quant import tensors_of
from .speed import Engine, decode_speed

_PARALLEL = (1, 2, 4, 8, 16)
_LEAST_CONTEXT = 1024
_BOTH = {"gguf", "paged"}
"""Memory models of the two engines that are compared."""


def recommend(
    deployment: Deployment,
    placement: Placement,
    facts: Facts,
    resolved: Resolved,
    playbooks: Mapping[str, Playbook],
    *,
    written: Placement | None,
) -> Recommendation:
    """What `placement` could be on its host. written: what the manifest says of it, whatever is asked
    now; None: it does not have the model yet. Where nothing can be told, `problem` says why."""
    key = f"{placement.model}@{placement.host}"
    weights = resolved.weights[key]
    if weights.shape is None or weights.tensors is None:
        problem = (
            f"{weights.source} can't be read from here: its shape, and with it what it needs, is unknown"
        )
        return Recommendation(model=placement.model, host=placement.host, problem=problem)
    memory = playbooks[deployment.backends[placement.backend].playbook].memory
    if memory not in ("gguf", "paged"):
        problem = f"the memory of backend {placement.backend} can't be worked out"
        return Recommendation(model=placement.model, host=placement.host, problem=problem)
    trained = weights.shape.context_length
    usual = min(DEFAULT_CONTEXT, trained or DEFAULT_CONTEXT)
    context = placement.context or usual
    wished = msgspec.structs.replace(placement, context=context)
    if written is not None and written.context is None:
        written = msgspec.structs.replace(written, context=usual)
    missing = [
        other.model
        for other in deployment.placements
        if other.host == placement.host and f"{other.model}@{other.host}" not in resolved.weights
    ]
    others = _without(deployment, placement, missing)
    try:
        allocate(others, placement.host, facts, resolved, playbooks)
    except CpudeployError as error:
        problem = (
            f"what else is placed there can't be given what it asks for: {error.where}: {error.sentence}"
        )
        return Recommendation(model=placement.model, host=placement.host, problem=problem)
    trial = _Trial(others, wished, facts, resolved, playbooks)
    try:
        choices = tuple(trial.choices(weights, weights.shape, weights.tensors))
    except CpudeployError as error:
        return Recommendation(model=placement.model, host=placement.host, problem=error.sentence)
    threads = trial.threads
    by_other = tuple(trial.by_other_engine(weights, weights.shape, weights.tensors))
    notes = (
        [f"{', '.join(missing)} of the same host is not counted: nothing is known of it"] if missing else []
    )
    if not trained:
        notes.append(f"its files tell no trained context: more than {context} was not tried")
    if any(choice.estimated for choice in choices):
        notes.append("≈ worked out from the size of its files: the header was not read")
    if by_other:
        notes.append(
            f"{by_other[0].backend}: ≈ the same model from another repository, as large as this usually is"
        )
    return Recommendation(
        model=placement.model,
        host=placement.host,
        context=context,
        parallel=placement.parallel,
        threads=threads,
        bandwidth=facts.memory.bandwidth,
        choices=(*choices, *by_other),
        advice=advise(wished, choices, written=written),
        engine=trial.engine_advice((*choices, *by_other)),
        notes=tuple(notes),
    )


def _without(deployment: Deployment, placement: Placement, models: Sequence[str]) -> Deployment:
    """The host as everything else on it is placed; the model itself is tried in many ways."""
    rest = (
        other
        for other in deployment.placements
        if other.host == placement.host and other.model != placement.model and other.model not in models
    )
    return msgspec.structs.replace(deployment, placements=tuple(rest))


@dataclass
class _Trial:
    """One model tried on one host. threads: what it got when it last fitted."""

    deployment: Deployment
    placement: Placement
    facts: Facts
    resolved: Resolved
    playbooks: Mapping[str, Playbook]
    threads: int = 0

    def choices(self, weights: ResolvedWeights, shape: ModelShape, tensors: Tensors) -> Iterator[Choice]:
        """The chosen quantisation and the others, smallest files first. Raises what stands in the way of any
        (a host that does not tell its cores or memory)."""
        named = (
            self.placement.source.quant if isinstance(self.placement.source, HuggingFace | ModelScope) else ""
        )
        chosen = _Variant(
            quant=named or max(tensors.matrices, key=lambda kind: tensors.matrices[kind], default="?"),
            size=tensors.size if isinstance(weights.size, Unknown) else weights.size,
            weights=(weights,),
            paced=tensors,
            chosen=True,
        )
        others = [_other(weights, tensors, variant) for variant in weights.variants if variant.size]
        for each in sorted([chosen, *others], key=lambda each: each.size):
            yield self._choice(each, shape)

    def by_other_engine(
        self, weights: ResolvedWeights, shape: ModelShape, tensors: Tensors
    ) -> Iterator[Choice]:
        """The same model by a backend of the other engine, where the manifest has one. A KV cache or a limit
        that was set by hand is this engine's alone."""
        memory = self._memory(self.placement.backend)
        other = next((name for name in self.deployment.backends if {memory, self._memory(name)} == _BOTH), "")
        if not other:
            return
        made = by_vllm(weights, shape) if memory == "gguf" else None
        ways = [made] if made else list(by_llama(weights, shape, tensors)) if memory == "paged" else []
        placement = msgspec.structs.replace(self.placement, backend=other, memory=None, kv=None)
        trial = replace(self, placement=placement)
        for quant, size, found in ways:
            variant = _Variant(quant=quant, size=size, weights=found, paced=found[0].tensors or tensors)
            # An engine whose needs nobody can tell is none to compare with.
            with suppress(CpudeployError):
                yield trial._choice(variant, shape)

    def engine_advice(self, choices: Sequence[Choice]) -> EngineAdvice | None:
        """None without a choice by vLLM."""
        vllm = next((each for each in choices if self._memory(each.backend) == "paged"), None)
        if vllm is None:
            return None
        llama = best_by_llama([each for each in choices if self._memory(each.backend) == "gguf"])
        return engine_advice(self.placement, self.facts, vllm, llama, backend=vllm.backend)

    def _memory(self, backend: str) -> str | None:
        playbook = self.playbooks.get(self.deployment.backends[backend].playbook)
        return None if playbook is None else playbook.memory

    def _choice(self, variant: _Variant, shape: ModelShape) -> Choice:
        context, parallel = self.placement.context or 0, self.placement.parallel
        wish = self.tried(variant, context, parallel)
        largest = tuple(self._largest(variant, shape.context_length))
        seat = wish if isinstance(wish, Allocation) else None
        fitting = seat or next(
            (
                found
                for each in largest
                if isinstance(found := self.tried(variant, each.context, each.parallel), Allocation)
            ),
            None,
        )
        return Choice(
            backend=self.placement.backend,
            quant=variant.quant,
            size=variant.size,
            chosen=variant.chosen,
            estimated=not variant.chosen,
            wish=None
            if seat is None
            else Combination(context=context, parallel=parallel, memory=seat.memory),
            why=wish.sentence if isinstance(wish, DoesNotFit) else "",
            largest=largest,
            speed=None if fitting is None else self._speed(variant, shape, fitting),
        )

    def _largest(self, variant: _Variant, trained: int) -> Iterator[Combination]:
        """Down the stairs: for each number of requests the largest context; those that are not outdone."""
        wish = self.placement.context or 0
        most = trained or wish
        powers = (1 << power for power in range(most.bit_length()))
        tried = {
            tokens for tokens in (*powers, wish, most) if _LEAST_CONTEXT <= tokens <= most or tokens == most
        }
        contexts = sorted(tried, reverse=True)
        last: Combination | None = None
        for parallel in sorted({*_PARALLEL, self.placement.parallel}):
            found: Combination | None = None
            while contexts and found is None:
                allocation = self.tried(variant, contexts[0], parallel)
                if isinstance(allocation, Allocation):
                    found = Combination(context=contexts[0], parallel=parallel, memory=allocation.memory)
                else:
                    contexts.pop(0)
            if last is not None and (found is None or found.context < last.context):
                yield last
            last = found
            if found is None:
                return
        if last is not None:
            yield last

    def tried(self, variant: _Variant, context: int, parallel: int) -> Allocation | DoesNotFit:
        """What `allocate` says: of several ways a file may turn out to be, the one that needs most."""
        placement = msgspec.structs.replace(self.placement, context=context, parallel=parallel)
        deployment = msgspec.structs.replace(
            self.deployment, placements=(*self.deployment.placements, placement)
        )
        key = f"{placement.model}@{placement.host}"
        found: list[Allocation] = []
        for weights in variant.weights:
            resolved = msgspec.structs.replace(self.resolved, weights={**self.resolved.weights, key: weights})
            try:
                every = allocate(deployment, placement.host, self.facts, resolved, self.playbooks)
            except DoesNotFit as error:
                return error
            found.append(every[placement.model])
        worst = max(found, key=lambda allocation: allocation.memory)
        self.threads = worst.threads
        return worst

    def _speed(self, variant: _Variant, shape: ModelShape, allocation: Allocation) -> Speed | None:
        bandwidth = self.facts.memory.bandwidth
        if bandwidth is None:
            return None
        backend = self.deployment.backends[self.placement.backend]
        placement = msgspec.structs.replace(
            self.placement, context=allocation.context, parallel=allocation.parallel
        )
        playbook = self.playbooks[backend.playbook]
        wanted = demand(placement, variant.weights[0], playbook, backend, self.facts).split(allocation.ranks)
        if wanted.measures is None:
            return None
        engine = _engine(self.facts, allocation, bandwidth)
        return decode_speed(shape, variant.paced, wanted.measures.serving, engine)


@dataclass(frozen=True)
class _Variant:
    """A quantisation to try. weights: the ways its files may turn out to be. paced: tensors for its speed."""

    quant: str
    size: int
    weights: tuple[ResolvedWeights, ...]
    paced: Tensors
    chosen: bool = False


def _other(weights: ResolvedWeights, tensors: Tensors, variant: Variant) -> _Variant:
    unread = Unknown(unknown="nobody was asked")
    files = tuple(file for file in weights.files if weights.projector and file.name == weights.projector)
    ways = tensors_of(tensors, variant)
    share = variant.size / tensors.size if tensors.size else 1.0
    return _Variant(
        quant=variant.quant,
        size=variant.size,
        weights=tuple(
            msgspec.structs.replace(
                weights,
                tree="",
                files=(UnreadFile(name=variant.quant, size=variant.size, sha256=unread), *files),
                tensors=each,
            )
            for each in ways
        ),
        paced=msgspec.structs.replace(
            ways[0],
            matrices={kind: int(sum(tensors.matrices.values()) * share) for kind in ways[0].matrices},
        ),
    )


def _engine(facts: Facts, allocation: Allocation, bandwidth: int) -> Engine:
    """What decodes: this allocation's cores, as a part of all that the bandwidth was measured with."""
    mine = parse_cpulist(allocation.cpuset)
    flags = None if isinstance(facts.cpu.flags, Unknown) else facts.cpu.flags
    if isinstance(facts.cpu.cores, Unknown):
        usable = () if isinstance(facts.cpu.usable, Unknown) else facts.cpu.usable
        part = len(mine) / len(usable) if usable else 1.0
        return Engine(bandwidth=bandwidth, threads=allocation.threads, part=part, flags=flags)
    used = [core for core in facts.cpu.cores if mine.intersection(core.cpus)]
    nodes = {core.node for core in used}
    there = [core for core in facts.cpu.cores if core.node in nodes]
    return Engine(
        bandwidth=bandwidth,
        threads=allocation.threads,
        part=len(used) / len(facts.cpu.cores),
        most=len(there) / len(facts.cpu.cores),
        # Each rank reads from its own node.
        nodes=-(-len(nodes) // allocation.ranks),
        flags=flags,
    )
