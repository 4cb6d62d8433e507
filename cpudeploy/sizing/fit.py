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
from .gguf.serving import SLOT_GRAIN
from .memory import container_limit, gib
from .quant import tensors_of

_NARROW = "q8_0"
"""A KV type of half the size that answers hardly differ with."""


def ways_to_fit(demand: Demand, room: int) -> tuple[str, ...]:
    """How one model alone would get along with a limit of `room` bytes, in the manifest's words."""
    if demand.placement.memory is not None:
        needed = container_limit(demand.need.total)
        return (f"its own {gib(needed)} (leave `memory` out)",) if demand.measures and needed <= room else ()
    if demand.measures is None:
        return ()
    measures = demand.measures
    serving = measures.serving

    def context(tokens: int) -> Measures:
        return replace(measures, serving=replace(serving, context=tokens))

    def parallel(requests: int) -> Measures:
        return replace(measures, serving=replace(serving, parallel=requests))

    ways = []
    contexts = range(SLOT_GRAIN, serving.context, SLOT_GRAIN)
    if (tokens := _largest(contexts, context, room)) is not None:
        ways.append(f"context {tokens}")
    if (requests := _largest(range(1, serving.parallel), parallel, room)) is not None:
        ways.append(f"parallel {requests}")
    narrow = replace(measures, serving=replace(serving, kv_type=_NARROW))
    if demand.params.get("kv_type") in ("f32", "f16", "bf16") and _fits(narrow, room):
        ways.append(f"kv_type {_NARROW} among the params of backend {demand.placement.backend}")
    smaller = sorted(demand.variants, key=lambda variant: variant.size, reverse=True)
    for variant in smaller:
        if variant.size < measures.file_bytes and all(_fits(each, room) for each in _as(measures, variant)):
            ways.append(f"quant {variant.quant}")
            break
    return tuple(ways)


def _largest(values: range, changed: Callable[[int], Measures], room: int) -> int | None:
    """The largest of ascending `values` that fits. It is found by halving: the need grows with the value, and
    there may be hundreds of thousands of them."""
    fitting = bisect_left(values, True, key=lambda value: not _fits(changed(value), room))
    return values[fitting - 1] if fitting else None


def _fits(measures: Measures, room: int) -> bool:
    return container_limit(measures.need.total) <= room


def _as(measures: Measures, variant: Variant) -> list[Measures]:
    return [
        replace(measures, file_bytes=variant.size, tensors=each)
        for each in tensors_of(measures.tensors, variant)
    ]
