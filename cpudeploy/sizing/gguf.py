"""Predicted peak memory of one llama.cpp server, from the model's own header. Pure arithmetic.

Bytes throughout. Where the header leaves room, the estimate errs upwards: windows and shared caches
are counted as full attention.
"""

from __future__ import annotations

from ..types.allocation import MemoryNeed
from ..types.shape import ModelShape, Tensors

MIB = 1 << 20
SLOT_GRAIN = 256
"""A slot's cells are rounded up to this many."""

_BATCH = 512
"""Tokens of one prompt batch (`--ubatch-size`)."""

_LIMIT_GRAIN = 16 * MIB
_F16 = 2
_F32 = 4
_ENGINE = 96 * MIB
"""The process itself, its tokenizer and HTTP threads; measured with small models on x86-64."""

_REPACKED = frozenset({"Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"})
"""Types whose matrices the CPU backend may keep a second time, rearranged."""


def slot_tokens(context: int) -> int:
    """The cells llama.cpp gives a slot that was asked for `context` tokens."""
    return -(-context // SLOT_GRAIN) * SLOT_GRAIN


def gguf_need(
    shape: ModelShape, tensors: Tensors, *, file_bytes: int, context: int, parallel: int, cache_ram: int
) -> MemoryNeed:
    """Peak memory for `parallel` slots of `context` tokens with an f16 KV cache. Sizes in bytes."""
    cells = slot_tokens(context) * parallel
    per_token = sum(
        each.layers * each.kv_heads * (each.key_length + each.value_length) * _F16 for each in shape.attention
    )
    logits = _BATCH * shape.vocabulary * _F32
    mask = _BATCH * cells * _F16
    compute = int(1.2 * (logits + mask)) + shape.vocabulary * _F32 * parallel
    repack = sum(size for kind, size in tensors.matrices.items() if kind in _REPACKED)
    return MemoryNeed(
        weights=file_bytes,
        repack=repack,
        kv=per_token * cells,
        state=0,
        compute=compute,
        engine=_ENGINE,
        cache=cache_ram,
    )


def container_limit(need: int) -> int:
    """The container's limit for a predicted peak: a twentieth of slack, whole 16 MiB. Bytes."""
    return -(-(need + need // 20) // _LIMIT_GRAIN) * _LIMIT_GRAIN
