"""The KV cache of a vLLM server. Pure; bytes of one rank.

It is one pool of blocks of equal size. A model whose layers all keep the same has one table of blocks a
request; one that mixes kinds of layers (windows, recurrent states) has its layers split into groups of equal
size, each with a table of its own, and a block of the largest kind's size for all: `get_kv_cache_groups` of
vllm/v1/core/kv_cache_utils.py, alike in 0.21 and 0.32. One block is never given to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...types.shape import AttentionLayers, ModelShape
from .serving import BLOCK, Paged

GIB = 1 << 30

_F32 = 4
_STATES = 2
"""Blocks of recurrent state a request: the one it is at, and with prefix caching (which 0.21 does not switch
on for such models) the one before."""

_NEARLY = 1.5
"""Kinds of layers whose numbers differ by less are grouped by the larger number."""


@dataclass(frozen=True)
class Pool:
    """block: bytes of one block. request: blocks that one request of the whole context holds."""

    block: int
    request: int

    def holding(self, requests: int) -> int:
        """Bytes for so many requests at a time, and the block that is nobody's."""
        return self.block * (self.request * requests + 1) if self.block else 0


@dataclass(frozen=True)
class _Kind:
    """Layers that are grouped together. page: bytes of a block of one of them; blocks: those of a request."""

    layers: int
    page: int
    blocks: int


def pool_of(shape: ModelShape, serving: Paged) -> Pool:
    """The pool of a model; the largest there may be where a state's type is the configuration's to say."""
    if not shape.recurrent:
        return _pool(shape, serving, 0)
    element = serving.element
    sizes = {_state(shape, serving, *types) for types in ((element, element), (element, _F32), (_F32, _F32))}
    return max(
        (_pool(shape, serving, size) for size in sizes), key=lambda pool: pool.holding(serving.parallel)
    )


def cache_bytes(shape: ModelShape, serving: Paged) -> int:
    """Bytes of each rank's cache, as the server is told them."""
    size = pool_of(shape, serving).holding(serving.parallel) if serving.kv is None else serving.kv
    return -(-size // GIB) * GIB if serving.overhead.kv == "GiB" else size


def request_bytes(shape: ModelShape, serving: Paged) -> int:
    """The least a rank's cache must have: one request of the whole context."""
    return pool_of(shape, serving).holding(1)


def whole_requests(shape: ModelShape, serving: Paged) -> int:
    """Requests of the whole context that the cache holds at a time."""
    pool = pool_of(shape, serving)
    blocks = cache_bytes(shape, serving) // pool.block if pool.block else 0
    return max(0, blocks - 1) // pool.request if pool.request else serving.parallel


def _pool(shape: ModelShape, serving: Paged, state: int) -> Pool:
    """state: bytes of one layer's recurrent state, 0 without."""
    tokens = {each: _token(each, serving) for each in shape.attention}
    windows = {each.window for each in shape.attention}
    if not state and len(windows) <= 1:
        # One table for all layers, whatever their heads.
        block = BLOCK * sum(each.layers * tokens[each] for each in shape.attention)
        return Pool(block, max((_blocks(each, serving, BLOCK) for each in shape.attention), default=0))
    # A block takes as many tokens as it must to be no smaller than a state.
    least = min(tokens.values(), default=0)
    size = BLOCK * max(1, -(-state // (BLOCK * least))) if least else BLOCK
    page = max([*(size * each for each in tokens.values()), 0 if least else state])
    kinds = [
        _Kind(each.layers, page, _blocks(each, serving, _fitting(size, tokens[each], page)))
        for each in tokens
    ]
    if state:
        kinds.append(_Kind(sum(each.layers for each in shape.recurrent), page, _STATES))
    fewest, most = min(kind.layers for kind in kinds), max(kind.layers for kind in kinds)
    group = most if most < fewest * _NEARLY else fewest
    return Pool(group * page, sum(-(-kind.layers // group) * kind.blocks for kind in kinds))


def _token(layers: AttentionLayers, serving: Paged) -> int:
    """Bytes of one token in one such layer of one rank: heads are dealt out, a latent is everybody's."""
    heads = -(-layers.kv_heads // serving.ranks) if layers.value_length else layers.kv_heads
    return heads * (layers.key_length + layers.value_length) * serving.element


def _fitting(size: int, token: int, page: int) -> int:
    """Tokens of a layer's block: where it needs less than the page, more if they fill it, else as many."""
    return page // token if page % (size * token) == 0 else size


def _blocks(layers: AttentionLayers, serving: Paged, size: int) -> int:
    """Blocks that one request holds. A window does not begin where a block does."""
    if layers.window is None:
        return -(-serving.context // size)
    return -(-min(layers.window - 1 + serving.step, serving.context) // size) + 1


def _state(shape: ModelShape, serving: Paged, conv: int, state: int) -> int:
    """Bytes of the largest state of one layer, given those of an element of its convolution and of itself."""
    return max((each.conv * conv + each.state * state) // serving.ranks for each in shape.recurrent)
