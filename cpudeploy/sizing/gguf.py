"""Predicted peak memory of one llama.cpp server, from the model's own header. Pure arithmetic.

Bytes throughout. Where the header leaves room, the estimate errs upwards.
"""

from __future__ import annotations

from ..types.allocation import MemoryNeed
from ..types.shape import ModelShape, Tensors
from .compute import compute_buffer, engine_bytes, projector_bytes
from .kv import cache_bytes, checkpoint_bytes, kv_bytes, state_bytes
from .repack import repack_bytes
from .serving import SLOT_GRAIN, Serving, slot_tokens

__all__ = ["MIB", "SLOT_GRAIN", "Serving", "container_limit", "gguf_need", "slot_tokens"]

MIB = 1 << 20

_LIMIT_GRAIN = 16 * MIB


def gguf_need(shape: ModelShape, tensors: Tensors, serving: Serving, *, file_bytes: int) -> MemoryNeed:
    """Peak memory of one llama.cpp server in bytes. file_bytes: the model's files, no projector."""
    return MemoryNeed(
        weights=file_bytes,
        repack=repack_bytes(tensors, serving.flags),
        kv=kv_bytes(shape, serving),
        state=state_bytes(shape, serving) + checkpoint_bytes(shape, serving),
        compute=compute_buffer(shape, tensors, serving, outputs=serving.parallel),
        engine=engine_bytes(shape, serving),
        cache=cache_bytes(shape, serving),
        projector=projector_bytes(serving.projector),
    )


def container_limit(need: int) -> int:
    """The container's limit for a predicted peak: a twentieth of slack, whole 16 MiB. Bytes.

    The weights' pages are within it, though the kernel could drop them: they are charged to the container
    that reads them first, and with a limit a tenth below what a model of f16 weights held, every token read
    a seventh of the file again from disk (docs/performance.md). The slack is for what the kernel charges
    beside the process's pages (page tables, sockets, /tmp); where weights were rearranged there is far more,
    as the file's pages of those are not read again.
    """
    return -(-(need + need // 20) // _LIMIT_GRAIN) * _LIMIT_GRAIN
