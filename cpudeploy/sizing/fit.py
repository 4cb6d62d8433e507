"""What would fit where something does not: the numbers for an error's advice. Pure.

In: a model that asks for too much, and the memory it could have. Out: the largest context, and the most
parallel requests, each with the other left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..types.shape import ModelShape, Tensors
from .gguf import SLOT_GRAIN, Serving, container_limit, gguf_need


def largest_that_fits(
    shape: ModelShape,
    tensors: Tensors,
    *,
    file_bytes: int,
    context: int,
    parallel: int,
    cache_ram: int,
    room: int,
) -> tuple[int | None, int | None]:
    """(context, parallel) below what is asked, whose container limit is at most `room` bytes; None: not even
    the smallest fits."""

    def fits(context: int, parallel: int) -> bool:
        serving = Serving(context=context, parallel=parallel, cache_ram=cache_ram)
        need = gguf_need(shape, tensors, serving, file_bytes=file_bytes)
        return container_limit(need.total) <= room

    contexts = range((context - 1) // SLOT_GRAIN * SLOT_GRAIN, 0, -SLOT_GRAIN)
    return (
        _first(contexts, lambda tokens: fits(tokens, parallel)),
        _first(range(parallel - 1, 0, -1), lambda requests: fits(context, requests)),
    )


def _first(values: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    return next(filter(fits, values), None)
