"""What would fit where something does not: the numbers for an error's advice. Pure.

In: a model that asks for too much, and the memory it could have. Out: what of it, changed alone, would do;
every number was tried with the very estimate that refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import msgspec

from ..types.shape import Tensors, Variant
from .demand import Demand, Measures
from .gguf import SLOT_GRAIN, container_limit
from .memory import gib

_NARROW = "q8_0"
"""A KV type of half the size that answers hardly differ with."""

_PLAIN = ("F32", "F16", "BF16", "Q8_0")
"""Quantisations whose matrices are all of one type; others mix, each publisher in another way."""

_REPACKED = "Q4_0"
"""The type that every CPU's kernels rearrange: the worst case for a file whose matrices are not known."""


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


def tensors_of(tensors: Tensors, variant: Variant) -> tuple[Tensors, ...]:
    """Another quantisation's tensors as they may turn out to be, from those of the one that was read: nobody
    read its matrices' types, and with them what is kept twice."""
    family = f"{variant.quant.partition('_K_')[0]}_K" if "_K_" in variant.quant else variant.quant
    kinds = (family,) if family in _PLAIN else (family, _REPACKED)
    share = variant.size / tensors.size if tensors.size else 1.0
    return tuple(
        msgspec.structs.replace(
            tensors,
            size=variant.size,
            matrices={kind: variant.size},
            experts=int(tensors.experts * share),
        )
        for kind in kinds
    )
