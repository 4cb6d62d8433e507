"""What memory one placement asks for. In: the placement, its resolved weights, the playbook. Out: `Demand`.

Whether a host has that much is `memory`'s question; what would need less is `fit`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import DoesNotFit, NotYet
from ..types.allocation import MemoryNeed
from ..types.base import Unknown
from ..types.deployment import Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.resolved import ResolvedWeights
from ..types.shape import ModelShape, Tensors, Variant
from .gguf.kv import cells_of
from .gguf.need import gguf_need
from .gguf.serving import Serving, slot_tokens
from .memory import MIB, container_limit

DEFAULT_CONTEXT = 8192


@dataclass(frozen=True)
class Measures:
    """All that a model's need is worked out from; what would fit is found by changing it."""

    shape: ModelShape
    tensors: Tensors
    serving: Serving
    file_bytes: int

    @property
    def need(self) -> MemoryNeed:
        return gguf_need(self.shape, self.tensors, self.serving, file_bytes=self.file_bytes)


@dataclass(frozen=True)
class Demand:
    """One placement's wish for memory. `measures`: None where the manifest's `memory` is all that is known.

    variants: other quantisations that the manifest could name instead. params: the playbook's, with the
    backend's own.
    """

    placement: Placement
    context: int
    need: MemoryNeed
    measures: Measures | None
    variants: tuple[Variant, ...]
    params: Mapping[str, Any]
    tree: str

    @property
    def limit(self) -> int:
        """The container's limit in bytes."""
        return self.placement.memory or container_limit(self.need.total)

    @property
    def cells(self) -> int:
        """Tokens of all slots, as the engine rounds them."""
        return slot_tokens(self.context) * self.placement.parallel


def demand(
    placement: Placement,
    weights: ResolvedWeights,
    playbook: Playbook,
    params: Mapping[str, Any],
    facts: Facts,
) -> Demand:
    """Raises DoesNotFit for a context the model does not know, NotYet where nothing tells its memory."""
    where = f"{placement.host} {placement.model}"
    measures = None
    if playbook.memory == "gguf" and weights.shape is not None and weights.tensors is not None:
        # 0: the file does not say what it was trained for.
        trained = weights.shape.context_length or max(placement.context or 0, DEFAULT_CONTEXT)
        context = placement.context or min(DEFAULT_CONTEXT, trained)
        if context > trained:
            raise DoesNotFit(
                f"context {context} of {placement.model} is more than the {trained} tokens the model knows",
                where=where,
                do=f"lower context to {trained}",
            )
        size = _file_bytes(weights)
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
        measures = Measures(weights.shape, weights.tensors, serving, size - projector)
        need = measures.need
    elif placement.memory is not None:
        context = placement.context or DEFAULT_CONTEXT
        need = MemoryNeed(weights=0, repack=0, kv=0, state=0, compute=0, engine=placement.memory, cache=0)
    else:
        why = (
            f"what {weights.source} is made of can't be read from here"
            if playbook.memory == "gguf"
            else f"playbook {playbook.name} does not know how"
        )
        raise NotYet(
            f"the memory of {placement.model} can't be worked out: {why}",
            where=where,
            do="say `memory` for this model, such as 8GiB",
        )
    return Demand(
        placement=placement,
        context=context,
        need=need,
        measures=measures,
        variants=weights.variants,
        params=params,
        tree=weights.tree,
    )


def _file_bytes(weights: ResolvedWeights) -> int:
    """Bytes of a model's files; where nobody told their size those of its tensors, which are most of it."""
    if isinstance(weights.size, Unknown):
        return weights.tensors.size if weights.tensors is not None else 0
    return weights.size


def reasons_of(demand: Demand) -> dict[str, str]:
    """Part of the need → where its number comes from, in words."""
    if demand.measures is None:
        return {"engine": "all of `memory:`, since the model's files tell nothing"}
    shape, serving = demand.measures.shape, demand.measures.serving
    slots = _counted(serving.parallel, "slot")
    state = "for each slot" + (
        f" and {serving.checkpoints} copies to go back to" if serving.checkpoints else ""
    )
    parts = {
        "weights": "the model's files, which the engine maps into memory",
        "repack": "matrices kept a second time, arranged for this CPU",
        "kv": f"in {serving.kv_type} for {slots}: {' + '.join(_layers(shape, serving))}",
        "state": f"what recurrent layers and windows keep, {state}",
        "compute": f"prompt batches of {serving.batch} tokens, a vocabulary of {shape.vocabulary}",
        "engine": f"the server, its vocabulary, {slots}",
        "cache": "prompts kept beside the slots, as `cache_ram_mib` says",
        "projector": "the file that lets the model see, and its buffers",
    }
    return {part: why for part, why in parts.items() if getattr(demand.need, part)}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _layers(shape: ModelShape, serving: Serving) -> list[str]:
    return [
        f"{_counted(each.layers, 'layer')} × {_counted(each.kv_heads, 'head')} × "
        f"({each.key_length} + {each.value_length}) × "
        f"{cells_of(each, serving)} tokens" + (f" (a window of {each.window})" if each.window else "")
        for each in shape.attention
    ]
