"""How fast a model answers on given cores, as a range. Pure.

A token is made by reading every active weight once, so that memory sets the pace; where few cores share a
fast memory, the arithmetic does, and for small models the steps between layers. A range is what is known of
such servers (docs/recommend.md), not an error bar: other work on the machine makes it slower.
Bytes, tokens, seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from ..types.recommendation import Rate, Speed
from ..types.shape import ModelShape, Tensors
from .gguf.kv import kv_bytes, state_bytes
from .gguf.serving import Serving
from .paged.kv import pool_of
from .paged.need import weight_bytes
from .paged.serving import Paged

LEAST_READ = 64 << 20
"""Below so many bytes a token, weights stay in the processor's caches and memory says nothing."""

_LARGE = 3_000_000_000
"""Bytes a token from which the steps between layers don't count any more (7 billion parameters at 4 bits)."""
_FEW_THREADS = 8

_MODERN = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "i8mm"})
_VECTORS = frozenset({"avx2", "asimddp", "lasx"})
_PER_THREAD = {"modern": (8e9, 25e9), "vectors": (4e9, 20e9), "plain": (0.5e9, 6e9)}
"""Bytes of weights a second that one thread works through, by what the CPU can do."""
_LOOKED_UP = ("IQ1", "IQ2", "IQ3", "TQ")
"""Types whose values come from tables: about a third of the pace."""
_BATCHED = (1.5, 2.0, 10.0)
"""How much less arithmetic a token costs at best with two requests at a time, with more, and on AMX tiles."""

_STEP_S = (0.00005, 0.001)
_LAYER_S = (0.000005, 0.0001)
"""A token's fixed cost, and a layer's: threads wait for each other several times in it."""

_PAGED_REACHED = (0.15, 1.0)
_PAGED_PER_THREAD = {
    "tiles": (3e9, 30e9),
    "bf16": (3e9, 25e9),
    "avx512": (1.5e9, 20e9),
    "vectors": (0.5e9, 12e9),
    "plain": (0.2e9, 6e9),
}
_PAGED_BATCHED = {
    "tiles": (4.0, 32.0),
    "bf16": (4.0, 8.0),
    "avx512": (2.0, 6.0),
    "vectors": (1.0, 4.0),
    "plain": (1.0, 2.0),
}
"""vLLM multiplies one matrix by all requests at a time: how much less arithmetic each then costs."""
_PAGED_STEP_S = (0.001, 0.02)
_PAGED_LAYER_S = (0.00001, 0.0005)
"""A step is scheduled in Python, once for all requests, on the cores that also compute."""


@dataclass(frozen=True)
class Engine:
    """What decodes. bandwidth: bytes a second that all usable cores of the host read together; part: of those
    cores, the ones this model has (0 to 1); most: the part of the bandwidth that its NUMA nodes have; nodes:
    how many these are; flags: the CPU's, None: not known.
    """

    bandwidth: int
    threads: int
    part: float = 1.0
    most: float = 1.0
    nodes: int = 1
    flags: Collection[str] | None = None


def read_per_token(shape: ModelShape, tensors: Tensors, requests: int = 1) -> int:
    """Bytes of weights read for one step of `requests` sequences: matrices of layers and output, of routed
    experts only those that are likely to be met. Embedding tables are looked up, not read."""
    matrices = sum(tensors.matrices.values()) or tensors.size
    if not (shape.experts and shape.experts_used and tensors.experts):
        return matrices
    missed = (1 - min(1.0, shape.experts_used / shape.experts)) ** requests
    return matrices - tensors.experts + int(tensors.experts * (1 - missed))


def decode_speed(
    shape: ModelShape, tensors: Tensors, serving: Serving | Paged, engine: Engine
) -> Speed | None:
    """The range for `serving.parallel` requests at a time, of llama.cpp or vLLM by the kind of serving; None
    for models so small that memory does not decide."""
    if isinstance(serving, Paged):
        tensors = _computed(tensors, serving.element)
    read = read_per_token(shape, tensors)
    if read < LEAST_READ:
        return None
    low = 1 / _slow(shape, tensors, replace(serving, parallel=1), engine)
    high, limit = _fast(shape, tensors, serving, 1, engine)
    requests = serving.parallel
    together = requests / _slow(shape, tensors, serving, engine)
    together_high = _fast(shape, tensors, serving, requests, engine)[0]
    return Speed(
        read=read,
        one=Rate(low=low, high=high),
        total=Rate(low=max(low, together), high=max(high, together_high)),
        limit=limit,
    )


def _computed(tensors: Tensors, element: int) -> Tensors:
    """The matrices in the type they are multiplied in, as vLLM holds them."""
    stored = sum(tensors.matrices.values())
    if not stored:
        return tensors
    held = weight_bytes(msgspec.structs.replace(tensors, size=stored), element)
    experts = tensors.experts * held // stored
    return msgspec.structs.replace(tensors, matrices={"": held}, experts=experts)


def _slow(shape: ModelShape, tensors: Tensors, serving: Serving | Paged, engine: Engine) -> float:
    """Seconds of one step of all requests, with full contexts and all that is known to hold servers back."""
    requests, paged = serving.parallel, isinstance(serving, Paged)
    kept = _kept(shape, serving)
    reached = _reached(read_per_token(shape, tensors), engine, paged)[0]
    bandwidth = engine.bandwidth * min(1.0, engine.part) * reached
    memory = (read_per_token(shape, tensors, requests) + kept) / bandwidth
    pace = _pace(engine, paged)[0]
    # What llama.cpp saves by computing several together is no more than nothing in the worst case.
    gain = min(requests, _batched(requests, engine, paged)[0])
    cores = (requests * _work(shape, tensors, pace) / gain + kept / pace) / engine.threads
    if paged:
        return max(memory, cores) + _PAGED_STEP_S[1] + shape.layers * _PAGED_LAYER_S[1]
    return max(memory, cores) + requests * _STEP_S[1] + shape.layers * _LAYER_S[1]


def _kept(shape: ModelShape, serving: Serving | Paged) -> int:
    """Bytes of the caches and states of all requests, read in a step where their contexts are full."""
    if isinstance(serving, Paged):
        return pool_of(shape, serving).holding(serving.parallel) * serving.ranks
    return kv_bytes(shape, serving) + 2 * state_bytes(shape, serving)


def _fast(
    shape: ModelShape, tensors: Tensors, serving: Serving | Paged, requests: int, engine: Engine
) -> tuple[float, Literal["memory", "cores", "steps"]]:
    """Tokens a second of so many requests, their contexts empty, when all goes well, and what holds them."""
    paged = isinstance(serving, Paged)
    reached = _reached(read_per_token(shape, tensors), engine, paged)[1]
    gain = 1.0 if requests == 1 else min(requests, _batched(requests, engine, paged)[1])
    parts: dict[Literal["memory", "cores", "steps"], float] = {
        "memory": read_per_token(shape, tensors, requests) / (engine.bandwidth * engine.most * reached),
        "cores": requests * _work(shape, tensors, _pace(engine, paged)[1]) / engine.threads / gain,
    }
    step, layer = (_PAGED_STEP_S, _PAGED_LAYER_S) if paged else (_STEP_S, _LAYER_S)
    steps = step[0] + shape.layers * layer[0]
    slowest = max(parts, key=lambda name: parts[name])
    limit = slowest if parts[slowest] >= steps else "steps"
    return requests / (parts[slowest] + steps), limit


def _reached(read: int, engine: Engine, paged: bool) -> tuple[float, float]:
    """Of the measured bandwidth, the part that decoding is known to reach: at least, at most."""
    if engine.nodes > 1:
        return 0.15, 0.5
    if paged:
        return _PAGED_REACHED
    if read >= _LARGE:
        return 0.5, 0.95
    return (0.4, 1.0) if engine.threads <= _FEW_THREADS else (0.3, 0.8)


def _work(shape: ModelShape, tensors: Tensors, pace: float) -> float:
    """Seconds one thread needs for one token's weights, at so many bytes a second."""
    matrices = tensors.matrices or {"": tensors.size}
    active = read_per_token(shape, tensors) / (sum(matrices.values()) or 1)
    looked_up = sum(size for kind, size in matrices.items() if kind.startswith(_LOOKED_UP))
    return active * (sum(matrices.values()) + 2 * looked_up) / pace


def _batched(requests: int, engine: Engine, paged: bool) -> tuple[float, float]:
    """How much less arithmetic a token costs with several requests computed together: at least, at most."""
    if paged:
        return _between(_PAGED_BATCHED, engine.flags)
    two, more, tiles = _BATCHED
    if engine.flags is None or "amx_int8" in engine.flags:
        return 1.0, tiles
    return 1.0, two if requests == 2 else more


def _pace(engine: Engine, paged: bool) -> tuple[float, float]:
    """Bytes a second of one thread: at least, at most."""
    if paged:
        return _between(_PAGED_PER_THREAD, engine.flags)
    if engine.flags is None:
        return _PER_THREAD["plain"][0], _PER_THREAD["modern"][1]
    flags = frozenset(engine.flags)
    ability = "modern" if flags & _MODERN else "vectors" if flags & _VECTORS else "plain"
    return _PER_THREAD[ability]


def _between(table: dict[str, tuple[float, float]], flags: Collection[str] | None) -> tuple[float, float]:
    """A row of one of vLLM's tables; where the flags are unknown, from the worst to the best of it."""
    if flags is None:
        return table["plain"][0], table["tiles"][1]
    return table[_ability(flags)]


def _ability(flags: Collection[str]) -> str:
    """The best of what multiplies 16-bit matrices."""
    have = frozenset(flags)
    if "amx_bf16" in have:
        return "tiles"
    if have & {"avx512_bf16", "bf16", "svebf16"}:
        return "bf16"
    return "avx512" if "avx512f" in have else "vectors" if have & _VECTORS else "plain"
