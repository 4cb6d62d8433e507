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

from ..types.recommendation import Rate, Speed
from ..types.shape import ModelShape, Tensors
from .gguf.kv import kv_bytes, state_bytes
from .gguf.serving import Serving

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


def decode_speed(shape: ModelShape, tensors: Tensors, serving: Serving, engine: Engine) -> Speed | None:
    """The range for `serving.parallel` slots; None for models so small that memory does not decide."""
    read = read_per_token(shape, tensors)
    if read < LEAST_READ:
        return None
    alone = replace(serving, parallel=1)
    low = 1 / _slow(shape, tensors, alone, engine)
    high, limit = _fast(shape, tensors, 1, engine)
    requests = serving.parallel
    together = requests / _slow(shape, tensors, serving, engine)
    together_high = _fast(shape, tensors, requests, engine)[0]
    return Speed(
        read=read,
        one=Rate(low=low, high=high),
        total=Rate(low=max(low, together), high=max(high, together_high)),
        limit=limit,
    )


def _slow(shape: ModelShape, tensors: Tensors, serving: Serving, engine: Engine) -> float:
    """Seconds of one step of all slots, their contexts full, with all that is known to hold servers back."""
    requests = serving.parallel
    kept = kv_bytes(shape, serving) + 2 * state_bytes(shape, serving)
    bandwidth = engine.bandwidth * min(1.0, engine.part) * _reached(read_per_token(shape, tensors), engine)[0]
    memory = (read_per_token(shape, tensors, requests) + kept) / bandwidth
    cores = (requests * _work(shape, tensors, engine)[0] + kept / _pace(engine)[0]) / engine.threads
    return max(memory, cores) + requests * _STEP_S[1] + shape.layers * _LAYER_S[1]


def _fast(
    shape: ModelShape, tensors: Tensors, requests: int, engine: Engine
) -> tuple[float, Literal["memory", "cores", "steps"]]:
    """Tokens a second of all slots, their contexts empty, when all goes well, and what holds them back."""
    reached = _reached(read_per_token(shape, tensors), engine)[1]
    gain = 1.0 if requests == 1 else min(requests, _batched(requests, engine))
    parts: dict[Literal["memory", "cores", "steps"], float] = {
        "memory": read_per_token(shape, tensors, requests) / (engine.bandwidth * engine.most * reached),
        "cores": requests * _work(shape, tensors, engine)[1] / engine.threads / gain,
    }
    steps = _STEP_S[0] + shape.layers * _LAYER_S[0]
    slowest = max(parts, key=lambda name: parts[name])
    limit = slowest if parts[slowest] >= steps else "steps"
    return requests / (parts[slowest] + steps), limit


def _reached(read: int, engine: Engine) -> tuple[float, float]:
    """Of the measured bandwidth, the part that decoding is known to reach: at least, at most."""
    if engine.nodes > 1:
        return 0.15, 0.5
    if read >= _LARGE:
        return 0.5, 0.95
    return (0.4, 1.0) if engine.threads <= _FEW_THREADS else (0.3, 0.8)


def _work(shape: ModelShape, tensors: Tensors, engine: Engine) -> tuple[float, float]:
    """Seconds one thread needs for one token's weights: at most, at least."""
    matrices = tensors.matrices or {"": tensors.size}
    active = read_per_token(shape, tensors) / (sum(matrices.values()) or 1)
    looked_up = sum(size for kind, size in matrices.items() if kind.startswith(_LOOKED_UP))
    work = active * (sum(matrices.values()) + 2 * looked_up)
    slow, fast = _pace(engine)
    return work / slow, work / fast


def _batched(requests: int, engine: Engine) -> float:
    two, more, tiles = _BATCHED
    if engine.flags is None or "amx_int8" in engine.flags:
        return tiles
    return two if requests == 2 else more


def _pace(engine: Engine) -> tuple[float, float]:
    """Bytes a second of one thread: at least, at most."""
    if engine.flags is None:
        return _PER_THREAD["plain"][0], _PER_THREAD["modern"][1]
    flags = frozenset(engine.flags)
    ability = "modern" if flags & _MODERN else "vectors" if flags & _VECTORS else "plain"
    return _PER_THREAD[ability]
