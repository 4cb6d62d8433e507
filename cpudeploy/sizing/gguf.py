"""Predicted peak memory of one llama.cpp server, from the model's own header. Pure arithmetic.

Bytes throughout. Where the header leaves room, the estimate errs upwards: windows and shared caches
are counted as full attention.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types.allocation import MemoryNeed
from ..types.shape import ModelShape, Tensors

MIB = 1 << 20
SLOT_GRAIN = 256
"""A slot's cells are rounded up to this many."""

_LIMIT_GRAIN = 16 * MIB
_F16 = 2
_F32 = 4
_ENGINE = 96 * MIB
"""The process itself, its tokenizer and HTTP threads; measured with small models on x86-64."""

_REPACKED = frozenset({"Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"})
"""Types whose matrices the CPU backend may keep a second time, rearranged."""


@dataclass(frozen=True)
class Serving:
    """How a model is to be served, as far as its memory depends on it.

    context: tokens a request; parallel: slots. kv_type: the cache's element type (`f16`, `q8_0`).
    ubatch: tokens of one prompt batch. cache_ram: bytes of the prompt cache; projector: bytes of the mmproj
    file, 0 without one. flags: the CPU's, None where not known.
    """

    context: int
    parallel: int
    kv_type: str = "f16"
    ubatch: int = 512
    cache_ram: int = 0
    projector: int = 0
    flags: frozenset[str] | None = None


def slot_tokens(context: int) -> int:
    """The cells llama.cpp gives a slot that was asked for `context` tokens."""
    return -(-context // SLOT_GRAIN) * SLOT_GRAIN


def gguf_need(shape: ModelShape, tensors: Tensors, serving: Serving, *, file_bytes: int) -> MemoryNeed:
    """Peak memory of one llama.cpp server in bytes. file_bytes: the model's files, no projector."""
    cells = slot_tokens(serving.context) * serving.parallel
    per_token = sum(
        each.layers * each.kv_heads * (each.key_length + each.value_length) * _F16 for each in shape.attention
    )
    logits = serving.ubatch * shape.vocabulary * _F32
    mask = serving.ubatch * cells * _F16
    compute = int(1.2 * (logits + mask)) + shape.vocabulary * _F32 * serving.parallel
    repack = sum(size for kind, size in tensors.matrices.items() if kind in _REPACKED)
    return MemoryNeed(
        weights=file_bytes,
        repack=repack,
        kv=per_token * cells,
        state=0,
        compute=compute,
        engine=_ENGINE,
        cache=serving.cache_ram,
        projector=serving.projector,
    )


def container_limit(need: int) -> int:
    """The container's limit for a predicted peak: a twentieth of slack, whole 16 MiB. Bytes."""
    return -(-(need + need // 20) // _LIMIT_GRAIN) * _LIMIT_GRAIN
