"""Predicted peak memory of one llama.cpp server, from the model's own header. Pure arithmetic.

Bytes throughout. Where the header leaves room, the estimate errs upwards.
"""

from __future__ import annotations

from ...types.allocation import MemoryNeed
from ...types.shape import ModelShape, Tensors
from .compute import compute_buffer, engine_bytes, projector_bytes
from .kv import cache_bytes, checkpoint_bytes, kv_bytes, state_bytes
from .repack import repack_bytes
from .serving import Serving


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
