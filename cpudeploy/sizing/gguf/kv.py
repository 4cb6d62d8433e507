"""What llama.cpp keeps of the tokens it has read: KV cache, recurrent state, checkpoints. Pure; bytes.

Slots don't share a cache unless told to: the playbook says `--parallel` and the sum of all contexts, and the
engine then makes one stream a slot. The figures agree with what the engine's log calls KV and RS buffer.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ...types.shape import AttentionLayers, ModelShape
from .serving import Serving, slot_tokens

_ELEMENT = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}
"""Bytes of one element by the cache's type."""

_F32 = 4


def kv_bytes(shape: ModelShape, serving: Serving) -> int:
    """The KV caches of all slots. A type that is not known counts as f32, the largest there is."""
    cells = sum(_cell(each, serving) * cells_of(each, serving) for each in shape.attention)
    return int(cells) * serving.streams


def state_bytes(shape: ModelShape, serving: Serving) -> int:
    """The recurrent states of all slots, f32 whatever the cache's type."""
    return sum(each.layers * (each.conv + each.state) for each in shape.recurrent) * _F32 * serving.parallel


def checkpoint_bytes(shape: ModelShape, serving: Serving) -> int:
    """The copies that slots keep of what can't be taken back token by token: states, and the tokens within
    each window. Nothing for models that attend to everything.

    One copy more for every four slots begun: the new one is made before an old one goes, and the allocator
    doesn't give everything back.
    """
    windows = sum(
        _cell(each, serving) * min(each.window, cells_of(each, serving))
        for each in shape.attention
        if each.window
    )
    if serving.checkpoints <= 0:
        return 0
    copies = serving.checkpoints * serving.parallel + -(-serving.parallel // 4)
    return copies * (int(windows) + state_bytes(shape, replace(serving, parallel=1)))


def cache_bytes(shape: ModelShape, serving: Serving) -> int:
    """The prompt cache: its limit, and one slot's whole state more, since the engine adds an entry before it
    looks whether it was too much. Nothing where it is off."""
    if not serving.cache_ram:
        return 0
    one = replace(serving, parallel=1)
    entry = kv_bytes(shape, one) + state_bytes(shape, one) + checkpoint_bytes(shape, one)
    return serving.cache_ram + entry


def cells_of(layers: AttentionLayers, serving: Serving) -> int:
    """Cells of one stream in such layers: with a window no more than that for each of its slots, and the
    batch being read."""
    if layers.window is None or serving.whole_windows:
        return serving.cells
    slots = serving.parallel // serving.streams
    return min(serving.cells, slot_tokens(layers.window * slots + serving.batch))


def _cell(layers: AttentionLayers, serving: Serving) -> Fraction:
    """Bytes of one token in all such layers."""
    elements = layers.layers * layers.kv_heads * (layers.key_length + layers.value_length)
    return elements * _ELEMENT.get(serving.kv_type, _ELEMENT["f32"])
