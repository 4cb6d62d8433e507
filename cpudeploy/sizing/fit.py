"""What would fit where something does not: the numbers for an error's advice. Pure.

In: a model that asks for too much, and the memory it could have. Out: what of it, changed alone, would do;
every number was tried with the very estimate that refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from ..types.shape import Variant
from .demand import Demand, Measures
from .gguf.measures import GgufMeasures
from .gguf.serving import Serving
from .memory import container_limit, gib
from .paged.measures import PagedMeasures
from .quant import tensors_of

_NARROW = "q8_0"
"""A KV type of half the size that answers hardly differ with."""

_USUAL, _USUAL_BITS = "Q4_K_M", 4.89
"""The quantisation that most publishers offer first, and its bits a parameter."""


def ways_to_fit(demand: Demand, room: int) -> tuple[str, ...]:
    """How one model alone would get along with a limit of `room` bytes, in the manifest's words."""
    if demand.placement.memory is not None:
        needed = container_limit(demand.least)
        return (f"its own {gib(needed)} (leave `memory` out)",) if demand.measures and needed <= room else ()
    if demand.measures is None:
        return ()
    measures = demand.measures
    if isinstance(measures, PagedMeasures) and measures.serving.kv is not None:
        # As long as that stands, less context or fewer requests take as much.
        counted = replace(measures, serving=replace(measures.serving, kv=None))
        usual = f"its KV cache's size left out of args and env ({gib(counted.need.kv)} do)"
        return (usual,) if _fits(counted, room) else _by_gguf(counted, room)
    ways = []
    contexts = range(measures.grain, measures.serving.context, measures.grain)
    if (tokens := _largest(contexts, lambda tokens: _context(measures, tokens), room)) is not None:
        ways.append(f"context {tokens}")
    requests = _largest(
        range(1, measures.serving.parallel), lambda requests: _parallel(measures, requests), room
    )
    if requests is not None:
        ways.append(f"parallel {requests}")
    if isinstance(measures, PagedMeasures):
        return (*ways, *_by_gguf(measures, room))
    serving = measures.serving
    narrow = replace(measures, serving=replace(serving, kv_type=_NARROW))
    if demand.params.get("kv_type") in ("f32", "f16", "bf16") and _fits(narrow, room):
        ways.append(f"kv_type {_NARROW} among the params of backend {demand.placement.backend}")
    smaller = sorted(demand.variants, key=lambda variant: variant.size, reverse=True)
    for variant in smaller:
        if variant.size < measures.file_bytes and all(_fits(each, room) for each in _as(measures, variant)):
            ways.append(f"quant {variant.quant}")
            break
    return tuple(ways)


def _context(measures: Measures, tokens: int) -> Measures:
    """The same with another context. Each kind has a serving of its own type."""
    if isinstance(measures, GgufMeasures):
        return replace(measures, serving=replace(measures.serving, context=tokens))
    return replace(measures, serving=replace(measures.serving, context=tokens))


def _parallel(measures: Measures, requests: int) -> Measures:
    if isinstance(measures, GgufMeasures):
        return replace(measures, serving=replace(measures.serving, parallel=requests))
    return replace(measures, serving=replace(measures.serving, parallel=requests))


def _by_gguf(measures: PagedMeasures, room: int) -> tuple[str, ...]:
    """The other engine, with a quantisation that answers hardly differ with."""
    if not measures.shape.parameters:
        return ()
    size = int(measures.shape.parameters * _USUAL_BITS / 8)
    serving = Serving(context=measures.serving.context, parallel=measures.serving.parallel)
    variant = Variant(quant=_USUAL, size=size)
    ways = [
        GgufMeasures(measures.shape, each, serving, size) for each in tensors_of(measures.tensors, variant)
    ]
    if not all(_fits(each, room) for each in ways):
        return ()
    needed = max(container_limit(each.least) for each in ways)
    return (f"a GGUF of it in {_USUAL} by llama-cpp ({gib(needed)})",)


def _largest(values: range, changed: Callable[[int], Measures], room: int) -> int | None:
    """The largest of ascending `values` that fits. It is found by halving: the need grows with the value, and
    there may be hundreds of thousands of them."""
    fitting = bisect_left(values, True, key=lambda value: not _fits(changed(value), room))
    return values[fitting - 1] if fitting else None


def _fits(measures: Measures, room: int) -> bool:
    return container_limit(measures.least) <= room


def _as(measures: GgufMeasures, variant: Variant) -> list[GgufMeasures]:
    return [
        replace(measures, file_bytes=variant.size, tensors=each)
        for each in tensors_of(measures.tensors, variant)
    ]
