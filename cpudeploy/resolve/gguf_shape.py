"""A model's shape from a GGUF header, as llama.cpp lays out its caches. Pure.

In: a parsed header, from anywhere. Out: the `ModelShape`; what had to be assumed stands in its notes and
makes the model larger, never smaller. Raises HubError for the header of no language model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..types.shape import ModelShape, Tensors
from .gguf import Parsed
from .gguf_families import BOTH, INTERVALS, KNOWN, OWN_CACHE, SHARING, STATES, UNCACHED, WINDOWS, ZERO_HEADS
from .gguf_values import Header
from .layers import MAX_LAYERS, Cache, State, attention_of, convolved, recurrent_of


def describe(parsed: Parsed, *, where: str, parameters: int | None = None) -> ModelShape:
    """What the header says of the model. parameters: those of all shards, where there are several."""
    its = Header(parsed, where)
    layers = its.need("block_count", MAX_LAYERS)
    drafting = min(its.number("nextn_predict_layers"), layers)
    trunk = layers - drafting
    notes = []
    if drafting and its.architecture not in ZERO_HEADS:
        notes.append(f"{drafting} of its layers for multi-token prediction: their cache is not counted")
    recurrent = _recurrent(its, trunk, layers)
    attending = _attending(its, trunk, layers, recurrent)
    caches = [] if its.architecture in UNCACHED else _caches(its, trunk, attending, notes)
    states = [_state(its)] * sum(recurrent)
    if its.architecture not in KNOWN:
        what = "plain attention" if not states else "attention and a state in every layer"
        notes.append(f"architecture {its.architecture} is not known here: counted as {what}")
    return ModelShape(
        architecture=its.architecture,
        layers=layers,
        context_length=its.number("context_length"),
        embedding=its.number("embedding_length"),
        heads=max(its.by_layer("attention.head_count", layers), default=0),
        feed_forward=max(its.by_layer("feed_forward_length", layers), default=0),
        vocabulary=its.vocabulary(),
        attention=attention_of(caches, where),
        recurrent=recurrent_of(states, where),
        experts=its.number("expert_count"),
        experts_used=max(its.by_layer("expert_used_count", layers), default=0),
        parameters=parsed.parameters if parameters is None else parameters,
        chat_template=parsed.chat_template,
        notes=tuple(notes),
    )


def tensors_of(shards: Sequence[tuple[Parsed, int]]) -> Tensors:
    """Bytes of the tensors in the files of one model, each with its size: that stands in for tensors of types
    unknown here. The first is the one with the model's own keys."""
    matrices: Counter[str] = Counter()
    for parsed, _ in shards:
        matrices.update(parsed.matrices)
    architecture = shards[0][0].metadata.get("general.architecture") if shards else None
    if architecture not in UNCACHED and not any(parsed.output for parsed, _ in shards):
        for parsed, _ in shards:
            matrices.update(parsed.embedding)  # without an output matrix, the table is multiplied with
    return Tensors(
        size=sum(
            max(size - parsed.data_offset, 0) if parsed.unknown_types else parsed.tensor_bytes
            for parsed, size in shards
        ),
        matrices=dict(matrices),
        experts=sum(parsed.expert_bytes for parsed, _ in shards),
    )


def _recurrent(its: Header, trunk: int, layers: int) -> list[bool]:
    """Which layers keep a state."""
    if its.architecture in STATES | BOTH:
        return [True] * layers
    listed = its.listed("attention.recurrent_layers", layers)
    interval = INTERVALS.get(its.architecture)
    if interval is not None:
        interval = its.number("full_attention_interval", interval) or 1
        if listed is not None:
            return [bool(each) for each in listed]
        return [layer < trunk and (layer + 1) % interval != 0 for layer in range(layers)]
    if its.architecture in ZERO_HEADS:
        return [layer < trunk and not heads and not dense for layer, heads, dense in _blocks(its, layers)]
    return [its.architecture not in KNOWN and any(_state(its))] * layers


def _attending(its: Header, trunk: int, layers: int, recurrent: list[bool]) -> list[bool]:
    """Which layers attend, and have a cache or share one."""
    if its.architecture in STATES:
        return [False] * layers
    apart = its.architecture in INTERVALS or its.architecture in ZERO_HEADS
    # Of these the engine caches the layers for multi-token prediction together with the others.
    counted = layers if its.architecture in ZERO_HEADS else trunk
    return [
        layer < counted and not dense and not (apart and recurrent[layer])
        for layer, _, dense in _blocks(its, layers)
    ]


def _blocks(its: Header, layers: int) -> list[tuple[int, int, bool]]:
    """Each layer, its KV heads, and whether it is nothing but a feed-forward network."""
    heads = its.by_layer("attention.head_count_kv", layers, _heads(its, layers))
    alone = its.architecture in ("nemotron_h", "nemotron_h_moe")
    wide = its.by_layer("feed_forward_length", layers)
    return [(layer, heads[layer], alone and wide[layer] > 0) for layer in range(layers)]


def _heads(its: Header, layers: int) -> tuple[int, ...]:
    return its.by_layer("attention.head_count", layers)


def _caches(its: Header, trunk: int, attending: list[bool], notes: list[str]) -> list[Cache]:
    """What each layer keeps of every token."""
    layers = len(attending)
    heads = _heads(its, layers)
    kv_heads = its.by_layer("attention.head_count_kv", layers, heads)
    # The engine takes the first layer's heads; where it has none, the most any has.
    width = its.number("embedding_length") // (heads[0] or max(heads) or 1) if heads else 0
    key = its.number("attention.key_length", width)
    value = its.number("attention.value_length", width)
    near_key = its.number("attention.key_length_swa", key)
    near_value = its.number("attention.value_length_swa", value)
    if its.number("attention.key_length_mla") and its.number("attention.value_length_mla"):
        value = near_value = 0  # latent: values are computed from the cached keys
    elif its.architecture == "deepseek2":
        notes.append(
            "latent attention in its expanded form: a newer conversion needs a fraction of the cache"
        )
    window, windowed = _windows(its, trunk, notes)
    windowed += [False] * (layers - trunk)
    owners = OWN_CACHE.get(its.architecture, layers)
    if its.architecture in SHARING:
        owners = max(layers - its.number("attention.shared_kv_layers"), 0)
    if owners < layers:
        notes.append(f"the last {layers - owners} layers share the cache of others")
    caches = [
        Cache(kv_heads[layer], near_key, near_value, window)
        if windowed[layer]
        else Cache(kv_heads[layer], key, value)
        for layer in range(min(owners, layers))
        if attending[layer]
    ]
    return caches + _indexes(its, attending[:trunk], value, notes)


def _windows(its: Header, layers: int, notes: list[str]) -> tuple[int | None, list[bool]]:
    """The window in tokens, and which layers have it."""
    nowhere = [False] * layers
    rule = WINDOWS.get(its.architecture)
    said = its.number("attention.sliding_window", rule.length if rule else 0)
    if rule is None:
        if said and its.architecture not in KNOWN:
            notes.append(f"its window of {said} tokens is not counted on: every layer keeps all")
        return None, nowhere
    if its.architecture == "exaone4" and layers != 64:
        return None, nowhere  # the engine knows the window of the largest one only
    if its.architecture == "smallthinker" and not its.has("attention.sliding_window"):
        return None, nowhere
    if not said:
        return None, nowhere
    window = rule.length if rule.fixed else said
    listed = its.listed("attention.sliding_window_pattern", layers)
    if listed is not None:
        return window, [bool(each) for each in listed]
    if rule.period is None:
        notes.append(f"which layers have the window of {window} tokens is not said: every layer keeps all")
        return None, nowhere
    period = its.number("attention.sliding_window_pattern", rule.period)
    dense = 0 if rule.first else period - 1
    return window, [not period or layer % period != dense for layer in range(layers)]


def _indexes(its: Header, attending: list[bool], value: int, notes: list[str]) -> list[Cache]:
    """Sparse attention keeps an index beside the keys: one head in each layer that has its own, with `value`
    elements for values that the engine sets aside as well."""
    length = its.number("attention.indexer.key_length")
    if not length:
        return []
    if its.has("attention.indexer.kpool") or its.architecture == "qwen4exp":
        length *= 3  # kept raw, gated and pooled
    listed = its.listed("attention.indexer.types", len(attending)) or (1,) * len(attending)
    own = sum(1 for each, attends in zip(listed, attending, strict=True) if each and attends)
    notes.append(f"{own} layers keep an index of their keys besides")
    return [Cache(1, length, value)] * own


def _state(its: Header) -> State:
    """What a recurrent layer keeps of a sequence."""
    width = its.number("embedding_length")
    heads = max(_heads(its, its.number("block_count", most=MAX_LAYERS)), default=0)
    if length := its.number("wkv.head_size"):
        return State(its.number("token_shift_count", 2) * width, width * length)
    if length := its.number("shortconv.l_cache"):
        return State(width * (length - 1), its.number("ssm.state_size") * its.number("ssm.inner_size"))
    kernel = its.number("ssm.conv_kernel")
    if length := its.number("kda.head_dim"):
        return State(3 * (kernel - 1 if kernel else 3) * heads * length, length * length * heads)
    if its.architecture == "minimax-01":
        length = its.number("attention.key_length", width // heads if heads else 0)
        return State(0, length * length * heads)
    return convolved(
        kernel, its.number("ssm.inner_size"), its.number("ssm.group_count"), its.number("ssm.state_size")
    )
