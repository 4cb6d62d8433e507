"""Predicted peak memory of one vLLM server, from the model's own headers. Pure arithmetic; bytes.

Where the headers leave room, the estimate errs upwards.
"""

from __future__ import annotations

from ...types.allocation import MemoryNeed
from ...types.shape import ModelShape, Tensors
from .kv import cache_bytes
from .serving import Paged

MIB = 1 << 20

_PLAIN = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
"""Bytes of an element as stored, of types that are turned into the one the model is computed in."""

_F32 = 4
_SORTED = 4
"""Copies of the logits that sampling keeps: as they are, in f32, sorted, and the sorting's indices."""


def paged_need(shape: ModelShape, tensors: Tensors, serving: Paged, *, largest_file: int) -> MemoryNeed:
    """Peak memory of one server with all its ranks. largest_file: bytes of the largest of the model's files,
    which is mapped while it is copied; like compiling, that is over when the cache is made."""
    overhead = serving.overhead
    kv = cache_bytes(shape, serving) * serving.ranks
    files = max(0, largest_file - kv)
    return MemoryNeed(
        weights=weight_bytes(tensors, serving.element),
        repack=_tables(shape, tensors, serving),
        kv=kv,
        state=0,
        compute=_compute(shape, serving),
        engine=(overhead.engine_mib + overhead.rank_mib * (serving.ranks - 1)) * MIB,
        cache=0,
        files=files,
        compile=max(0, overhead.compile_mib * MIB - kv - files),
    )


def start_bytes(need: MemoryNeed, serving: Paged, *, file_bytes: int) -> int:
    """What a memory limit must have for the server to start. A version that looks at its limit counts all
    that is charged to it, and the kernel charges the pages of files to whoever read them first; it would give
    them up for the cache, but the server does not ask for it."""
    if not serving.overhead.reads_limit:
        return need.total
    return max(need.total, need.total - need.files - need.compile + file_bytes)


def weight_bytes(tensors: Tensors, element: int) -> int:
    """All tensors in the type that the model is computed in; quantised ones stay as they are."""
    matrices = tensors.matrices
    size = sum(_held(kind, stored, element) for kind, stored in matrices.items())
    # Tables that are looked up, vectors and what sees are of the type that most plain matrices have.
    plain = {kind: stored for kind, stored in matrices.items() if kind in _PLAIN}
    usual = max(plain, key=lambda kind: plain[kind]) if plain else "BF16"
    return size + _held(usual, max(0, tensors.size - sum(matrices.values())), element)


def _held(kind: str, stored: int, element: int) -> int:
    return stored * element // _PLAIN[kind] if kind in _PLAIN else stored


def _tables(shape: ModelShape, tensors: Tensors, serving: Paged) -> int:
    """The token table and the output matrix a second time: they are rearranged for multiplying as every
    matrix is, but what they were made from stays, since tokens are looked up in it."""
    table = shape.vocabulary * shape.embedding * serving.element
    # A table of its own is no matrix: then there is an output matrix beside it.
    apart = weight_bytes(tensors, serving.element) - sum(
        _held(kind, stored, serving.element) for kind, stored in tensors.matrices.items()
    )
    return table * (2 if apart >= table else 1)


def _compute(shape: ModelShape, serving: Paged) -> int:
    """Activations of one step, and the logits of all requests. Ranks have a part of each matrix's output, and
    all of what goes from layer to layer."""
    passed = 4 * shape.embedding * serving.ranks
    inner = 3 * max(shape.feed_forward, shape.embedding)
    logits = serving.parallel * shape.vocabulary * _F32 * _SORTED
    return serving.step * (passed + inner) * serving.element + logits
