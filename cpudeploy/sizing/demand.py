"""What memory one placement asks for. In: the placement, its weights, playbook and backend. Out: `Demand`.

Whether a host has that much is `memory`'s question; what would need less is `fit`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ..errors import DoesNotFit, NotYet
from ..types.allocation import MemoryNeed
from ..types.base import Unknown
from ..types.capability import able
from ..types.deployment import Backend, Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.resolved import ResolvedWeights
from ..types.shape import ModelShape, Tensors, Variant
from .gguf.measures import GgufMeasures
from .gguf.serving import Serving
from .memory import MIB, container_limit, gib
from .paged.kv import cache_bytes, request_bytes
from .paged.measures import PagedMeasures
from .paged.serving import Paged

DEFAULT_CONTEXT = 8192

Measures = GgufMeasures | PagedMeasures
"""All that a model's need is worked out from, by its engine."""


@dataclass(frozen=True)
class Demand:
    """One placement's wish for memory. `measures`: None where the manifest's `memory` is all that is known.

    variants: other quantisations that the manifest could name instead. params: the playbook's, with the
    backend's own. bound: the engine binds its threads, and each rank's memory, to the cores of one NUMA node.
    """

    placement: Placement
    context: int
    need: MemoryNeed
    measures: Measures | None
    variants: tuple[Variant, ...]
    params: Mapping[str, Any]
    tree: str
    bound: bool = False

    @property
    def limit(self) -> int:
        """The container's limit in bytes."""
        return self.placement.memory or container_limit(self.least)

    @property
    def least(self) -> int:
        """What the limit must cover."""
        return self.measures.least if self.measures is not None else self.need.total

    @property
    def cells(self) -> int:
        """Tokens of all requests, as the engine rounds them."""
        return self.measures.cells if self.measures is not None else self.context * self.placement.parallel

    def split(self, ranks: int) -> Demand:
        """The same with the model split into so many ranks. Raises DoesNotFit where a limit that was said is
        no more than their caches."""
        if self.measures is None and self.need.kv:
            more = self.need.kv * (ranks - 1)
            if more >= self.need.engine:
                raise DoesNotFit(
                    f"memory {gib(self.need.total)} is no more than the KV caches of {ranks} ranks",
                    where=f"{self.placement.host} {self.placement.model}",
                    do="say more `memory`, or a smaller size of the cache: each rank has its own",
                )
            need = msgspec.structs.replace(self.need, kv=self.need.kv + more, engine=self.need.engine - more)
            return replace(self, need=need)
        if not isinstance(self.measures, PagedMeasures):
            return self
        measures = replace(self.measures, serving=replace(self.measures.serving, ranks=ranks))
        return replace(self, measures=measures, need=measures.need)


def demand(
    placement: Placement, weights: ResolvedWeights, playbook: Playbook, backend: Backend, facts: Facts
) -> Demand:
    """With one rank. Raises DoesNotFit for a context the model does not know, NotYet where nothing tells its
    memory."""
    params = playbook.params_with(backend.params, placement.params)
    context = _context(placement, weights.shape)
    measures: Measures | None = None
    if weights.shape is not None and weights.tensors is not None:
        if playbook.memory == "gguf":
            measures = _gguf(placement, weights, weights.shape, weights.tensors, context, params, facts)
        elif playbook.memory == "paged" and backend.overhead is not None:
            serving = Paged(
                context=context,
                parallel=placement.parallel,
                element=_element(params, facts),
                overhead=backend.overhead,
                kv=placement.kv,
            )
            measures = _paged(weights, weights.shape, weights.tensors, serving)
    return Demand(
        placement=placement,
        context=context,
        need=_said(placement, weights, playbook, backend) if measures is None else measures.need,
        measures=measures,
        variants=weights.variants,
        params=params,
        tree=weights.tree,
        bound=playbook.threads == "omp",
    )


def _context(placement: Placement, shape: ModelShape | None) -> int:
    """Tokens a request. Raises DoesNotFit for more than the model was trained for."""
    # 0: the file does not say what that was.
    trained = shape.context_length if shape is not None else 0
    trained = trained or max(placement.context or 0, DEFAULT_CONTEXT)
    context = placement.context or min(DEFAULT_CONTEXT, trained)
    if context > trained:
        raise DoesNotFit(
            f"context {context} of {placement.model} is more than the {trained} tokens the model knows",
            where=f"{placement.host} {placement.model}",
            do=f"lower context to {trained}",
        )
    return context


def _gguf(
    placement: Placement,
    weights: ResolvedWeights,
    shape: ModelShape,
    tensors: Tensors,
    context: int,
    params: Mapping[str, Any],
    facts: Facts,
) -> GgufMeasures:
    projector = sum(
        file.size
        for file in weights.files
        if file.name == weights.projector and not isinstance(file.size, Unknown)
    )
    serving = Serving(
        context=context,
        parallel=placement.parallel,
        kv_type=str(params.get("kv_type", "f16")),
        ubatch=int(params.get("ubatch", 512)),
        cache_ram=int(params.get("cache_ram_mib", 0)) * MIB,
        checkpoints=int(params.get("checkpoints", 2)),
        projector=projector,
        flags=None if isinstance(facts.cpu.flags, Unknown) else frozenset(facts.cpu.flags),
    )
    return GgufMeasures(shape, tensors, serving, _file_bytes(weights) - projector)


def _paged(weights: ResolvedWeights, shape: ModelShape, tensors: Tensors, serving: Paged) -> PagedMeasures:
    size = _file_bytes(weights)
    sizes = [file.size for file in weights.files if not isinstance(file.size, Unknown)]
    return PagedMeasures(shape, tensors, serving, size, max(sizes, default=size))


def refuse_short_cache(wanted: Demand) -> None:
    """Raises DoesNotFit for a KV cache set by hand that does not hold one request, with the ranks it has."""
    measures, placement = wanted.measures, wanted.placement
    if not isinstance(measures, PagedMeasures):
        return
    serving, kv = measures.serving, measures.serving.kv
    least = request_bytes(measures.shape, serving)
    if kv is not None and kv < least:
        usual = cache_bytes(measures.shape, replace(serving, kv=None))
        each = f" for each of {serving.ranks} ranks" if serving.ranks > 1 else ""
        raise DoesNotFit(
            f"{placement.model}: a KV cache of {gib(kv)}{each} does not hold one request of "
            f"{serving.context} tokens, which takes {gib(least)}",
            where=f"{placement.host} {placement.model}",
            do=f"lower context, or leave the size out: context and parallel are then given {gib(usual)}",
        )


def _element(params: Mapping[str, Any], facts: Facts) -> int:
    """Bytes of a number of the type that the model is computed in, as the playbook chooses it."""
    kind = params.get("dtype", "auto")
    if kind == "auto":
        kind = "bfloat16" if able(facts, "bf16") is True else "float32"
    return 4 if kind == "float32" else 2


def _said(placement: Placement, weights: ResolvedWeights, playbook: Playbook, backend: Backend) -> MemoryNeed:
    """The need as the manifest says it. Raises NotYet where it does not, and where an engine has to be told a
    part of it that nobody can work out."""
    why = f"what {weights.source} is made of can't be read from here"
    if playbook.memory not in ("gguf", "paged"):
        why = f"playbook {playbook.name} does not know how"
    elif playbook.memory == "paged" and backend.overhead is None:
        why = f"none of the overheads of playbook {playbook.name} is for the version of {backend.image}"
    where = f"{placement.host} {placement.model}"
    if placement.memory is None:
        raise NotYet(
            f"the memory of {placement.model} can't be worked out: {why}",
            where=where,
            do="say `memory` for this model, such as 8GiB",
        )
    kv = 0
    if playbook.memory == "paged":
        if placement.kv is None or placement.kv >= placement.memory:
            raise NotYet(
                f"the KV cache of {placement.model} can't be worked out: {why}",
                where=where,
                do="say its size as well, and less than `memory`",
            )
        kv = placement.kv
    return MemoryNeed(weights=0, repack=0, kv=kv, state=0, compute=0, engine=placement.memory - kv, cache=0)


def _file_bytes(weights: ResolvedWeights) -> int:
    """Bytes of a model's files; where nobody told their size those of its tensors, which are most of it."""
    if isinstance(weights.size, Unknown):
        return weights.tensors.size if weights.tensors is not None else 0
    return weights.size


def reasons_of(demand: Demand) -> dict[str, str]:
    """Part of the need → where its number comes from, in words."""
    if demand.measures is None:
        return {"engine": "all of `memory:`, since the model's files tell nothing"}
    return {part: why for part, why in demand.measures.reasons.items() if getattr(demand.need, part)}
