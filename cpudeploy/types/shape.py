"""What a model is made of, as far as memory and speed depend on it. Read by `resolve/` from a GGUF header
or from config.json and safetensors headers; read by sizing. Bytes, tokens and elements, never guesses: what
an estimate had to assume stands in `notes`.
"""

from __future__ import annotations

from .base import Count, Struct


class AttentionLayers(Struct, frozen=True, kw_only=True):
    """Layers that own a KV cache, all of one form. Layers that share another's cache are in none.

    A cell of one layer holds `kv_heads * (key_length + value_length)` elements. A latent cache (MLA) has one
    head, the latent's length as key_length and value_length 0. window: tokens a layer looks back, None: all.
    """

    layers: Count
    kv_heads: Count
    key_length: Count
    value_length: Count
    window: Count | None = None


class RecurrentLayers(Struct, frozen=True, kw_only=True):
    """Layers with a state of fixed size a sequence, kept in f32 whatever the cache's type.

    conv, state: elements a layer and sequence.
    """

    layers: Count
    conv: Count
    state: Count


class ModelShape(Struct, frozen=True, kw_only=True):
    """A language model's dimensions. 0: the file does not say.

    architecture: the engine's or the configuration's own word. layers: all of them; `attention` and
    `recurrent` count only those with a cache or state of their own. feed_forward: of a dense layer.
    experts, experts_used: a layer's routed experts, and how many of them one token goes through.
    chat_template: whether the file carries one; None where that can't be told.
    """

    architecture: str
    layers: Count
    context_length: Count
    embedding: Count
    heads: Count
    feed_forward: Count = 0
    vocabulary: Count
    attention: tuple[AttentionLayers, ...]
    recurrent: tuple[RecurrentLayers, ...] = ()
    experts: Count = 0
    experts_used: Count = 0
    parameters: Count = 0
    chat_template: bool | None = None
    notes: tuple[str, ...] = ()


class Tensors(Struct, frozen=True, kw_only=True):
    """Bytes of a model's tensors, as stored.

    size: all of them. matrices: type (`Q4_K`, `F16`, `BF16`) → bytes of the matrices that layers and output
    multiply with; tables that are only looked up (token embeddings) and vectors are left out. experts: of
    those, the routed experts'.
    """

    size: Count
    matrices: dict[str, Count] = {}
    experts: Count = 0


class Variant(Struct, frozen=True, kw_only=True):
    """Another quantisation of the model in the same repository: its name (`Q4_K_M`), bytes of its files."""

    quant: str
    size: Count
