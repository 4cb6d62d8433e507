"""The engine's working memory: activations of one batch, logits, and what it is without a model. Pure; bytes.

The layouts follow build 11434's graphs of dense, mixture and linear-attention models with flash attention,
which the CPU backend always has; each was compared with what the server's log said of it.
"""

from __future__ import annotations

from ...types.shape import ModelShape, Tensors
from .kv import cells_of
from .serving import Serving

_F16, _F32 = 2, 4
_MIB = 1 << 20
_RESIDUALS = 5
"""Vectors of the model's width that live beside the widest part of a layer."""

_OUTPUT_GAPS = 1.16
"""What the allocator wastes around logits of a whole batch; fitted to logs of several builds."""

_PROCESS = 36 * _MIB
"""The program's own pages, its libraries and its pools of threads."""

_TOKEN, _PLAIN_TOKEN = 300, 210
"""Text, score and lookups of one token, with and without merges."""

_PLAIN = frozenset({"gemma", "gemma2", "gemma3", "gemma3n"})
"""Architectures whose vocabularies are large and have no merges."""

_SLOT = _MIB // 2
"""Threads and buffers of one request."""

_CANDIDATE = 12
"""A token as the sampler sees it, in every slot."""

_PROJECTOR_FLOOR = 256 * _MIB


def compute_buffer(shape: ModelShape, tensors: Tensors, serving: Serving, *, outputs: int) -> int:
    """What the engine's log calls compute buffer. outputs: tokens of one batch whose logits are wanted.

    Only as much as is used becomes resident. A server wants one token a slot; builds from before 2026 reserve
    logits of the whole batch all the same, and never touch them.
    """
    masks = sum({cells_of(each, serving) for each in shape.attention}) * _F16
    wide = max(_attention(shape, serving), _recurrent(shape), _feed_forward(shape, tensors))
    layer = (wide + _RESIDUALS * shape.embedding) * _F32 * serving.batch
    logits = outputs * shape.vocabulary * _F32
    if outputs < serving.batch:
        last = logits + _RESIDUALS * shape.embedding * _F32 * serving.batch
    else:
        last = int(_OUTPUT_GAPS * (logits + shape.embedding * _F32 * serving.batch))
    return masks * serving.batch + max(layer, last)


def engine_bytes(shape: ModelShape, serving: Serving) -> int:
    """The server itself: program, vocabulary, and what each slot has beside its cache."""
    token = _PLAIN_TOKEN if shape.architecture in _PLAIN else _TOKEN
    slot = _SLOT + shape.vocabulary * (_CANDIDATE + _F32)
    return _PROCESS + shape.vocabulary * token + serving.parallel * slot


def projector_bytes(file: int) -> int:
    """An image projector: its weights, which are never mapped, and the buffers of one large image."""
    return file + max(file, _PROJECTOR_FLOOR) if file else 0


def _attention(shape: ModelShape, serving: Serving) -> int:
    """Elements a token: queries, keys, values and what comes of them; without flash attention how every head
    looks at every cell, which is more than all of these."""
    if not serving.flash and shape.attention:
        return shape.heads * serving.cells
    return max(
        (
            3 * shape.heads * max(each.key_length, each.value_length)
            + 2 * each.kv_heads * (each.key_length + each.value_length)
            for each in shape.attention
        ),
        default=0,
    )


def _recurrent(shape: ModelShape) -> int:
    """The convolution's input, output and their projections. Its kernel spans four tokens in every model of
    this kind, of which three are kept."""
    return max((4 * each.conv // 3 for each in shape.recurrent), default=0)


def _feed_forward(shape: ModelShape, tensors: Tensors) -> int:
    """Gate, up and their product; with experts those of all that are used, and what each gives."""
    dense = 3 * shape.feed_forward
    if not shape.experts:
        return dense
    return max(dense, shape.experts_used * (3 * _expert_width(shape, tensors) + shape.embedding))


def _expert_width(shape: ModelShape, tensors: Tensors) -> int:
    """No file says it in one way. At most what the experts' bytes allow at the smallest type there is."""
    bytes_each = tensors.experts / (shape.layers * shape.experts * 3 * shape.embedding)
    widest = int(bytes_each / _SMALLEST)
    return min(shape.feed_forward, widest) if shape.feed_forward else widest


_SMALLEST = 0.25
"""Bytes of one weight at two bits."""
