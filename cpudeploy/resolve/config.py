"""A model's shape from its config.json. Pure.

In: the configuration as JSON gave it, from anywhere: keys may be missing, null or of another type. Out: the
`ModelShape`; what had to be assumed stands in its notes and makes the model larger, never smaller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import HubError
from ..types.shape import ModelShape
from .config_families import DEFAULTS, ENCODERS, KNOWN, PERIODS
from .layers import MAX_COUNT, MAX_LAYERS, Cache, State, attention_of, convolved, recurrent_of

_NESTED = ("thinker_config", "text_config", "llm_config", "language_config")
_CLASS = re.compile(
    r"(?P<family>\w+?)(?:ForCausalLM|LMHeadModel|ForConditionalGeneration|ForSequenceClassification|"
    r"ForMaskedLM|Model)"
)
# Words of the kinds of layers that configurations list.
_WINDOWED = ("sliding", "chunked", "local")
_RECURRENT = ("linear", "mamba", "conv", "recurrent", "ssm", "kda", "hybrid")
_EMPTY = ("moe", "mlp", "ffn", "noop", "skip")


def shape_of(
    config: Mapping[str, Any],
    *,
    latent: bool = False,
    parameters: int = 0,
    chat_template: bool | None = None,
    where: str = "config.json",
) -> ModelShape:
    """The shape of the language model that `config` describes.

    latent: the engine keeps multi-head latent attention compressed; otherwise every head's keys and values
    are counted, up to 71 times as much. parameters, chat_template: what other files told. Raises HubError
    where layers or heads are not said.
    """
    known = _Config(config, where)
    layers = _layers(known)
    kinds, assumed = _kinds(known, layers)
    notes = list(assumed)
    shared = min(known.number("num_kv_shared_layers"), layers)
    owners = kinds[: layers - shared]
    caches: list[Cache] = []
    if known.family not in ENCODERS and any(kind in ("full", "window", "both") for kind in owners):
        caches = _caches(known, owners, latent, notes)
    states: list[State] = []
    if "recurrent" in kinds or "both" in kinds:
        state = _state(known)
        if not any(state):
            notes.append("the state of its recurrent layers is not said: counted as none")
        states = [state for kind in kinds if kind in ("recurrent", "both")]
    if shared:
        notes.append(f"the last {shared} layers share the cache of others")
    if drafted := known.number("num_nextn_predict_layers", "mtp_num_hidden_layers"):
        notes.append(f"{drafted} more for multi-token prediction: not counted")
    if not known.family:
        notes.append("no architecture is named: counted as plain attention")
    elif known.family not in KNOWN:
        notes.append(f"{known.architecture} is not known here: counted by what its configuration says")
    return ModelShape(
        architecture=known.architecture,
        layers=layers,
        context_length=known.number(*_CONTEXT),
        embedding=known.number(*_WIDTH),
        heads=known.number(*_HEADS),
        feed_forward=known.number("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff"),
        vocabulary=known.number("vocab_size", "padded_vocab_size"),
        attention=attention_of(caches, where),
        recurrent=recurrent_of(states, where),
        experts=known.number("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
        experts_used=known.number(
            "num_experts_per_tok", "top_k_experts", "experts_per_token", "moe_k", "moe_topk"
        ),
        parameters=parameters,
        chat_template=chat_template,
        notes=tuple(notes),
    )


def is_encoder(config: Mapping[str, Any]) -> bool:
    """Whether the model reads a text at once, and writes none."""
    return _Config(config, _CONFIG).family in ENCODERS


_CONFIG = "config.json"
_WINDOWS = ("sliding_window", "sliding_window_size", "attention_chunk_size")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "seq_length",
    "max_sequence_length",
    "max_seq_len",
    "model_max_length",
    "n_ctx",
)


class _Config:
    """The language model's part of a configuration. A key that is null is as if it were not there, but for
    a window's: that says there is none."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self._where = where
        self._values = _flat(config, 3)
        self.architecture = self._named()
        self.family = re.sub(r"[^a-z0-9]|_?text$", "", self.architecture.lower())
        defaults = dict(DEFAULTS.get(self.family, {}))
        if "layer_types" in self._values:
            defaults.pop("full_attention_interval", None)
        for key in _WINDOWS:
            if key in self._values and self._values[key] is None:
                defaults.pop(key, None)
        self._values = {
            **defaults,
            **{key: value for key, value in self._values.items() if value is not None},
        }

    def _named(self) -> str:
        named = self._values.get("model_type")
        if isinstance(named, str) and named:
            return named[:80]
        for each in self.listed("architectures"):
            match = _CLASS.match(each) if isinstance(each, str) else None
            if match is not None:
                return match["family"][:80]
        if "linear_num_value_heads" in self._values:
            return "qwen3_5"
        return ""

    def number(self, *keys: str, default: int = 0, most: int = MAX_COUNT) -> int:
        """The first of `keys` that is said; the largest of a list. Raises HubError for nonsense."""
        for key in keys:
            value = self._values.get(key)
            if isinstance(value, list):
                value = max((each for each in value if type(each) is int), default=None)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if value is None or isinstance(value, (bool, str)):
                continue
            if not isinstance(value, int) or not 0 <= value <= most:
                raise HubError(
                    f"{key} is {str(value)[:40]}",
                    where=self._where,
                    do="check the file, or another repository",
                )
            return value
        return default

    def need(self, what: str, keys: tuple[str, ...], most: int = MAX_COUNT) -> int:
        value = self.number(*keys, most=most)
        if not value:
            raise HubError(
                f"it does not say the {what} ({keys[0]})",
                where=self._where,
                do="say `memory`, or use a repository with the model's own config.json",
            )
        return value

    def listed(self, key: str) -> list[Any]:
        value = self._values.get(key)
        return value if isinstance(value, list) else []

    def text(self, key: str) -> str:
        value = self._values.get(key)
        return value if isinstance(value, str) else ""

    def has(self, key: str) -> bool:
        return key in self._values

    def false(self, key: str) -> bool:
        return self._values.get(key) is False

    def true(self, key: str) -> bool:
        return self._values.get(key) is True

    def within(self, key: str) -> _Config | None:
        value = self._values.get(key)
        return _Config(value, self._where) if isinstance(value, Mapping) else None


def _flat(config: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """What stands on top, and above it what the language model's own part says."""
    values = {key: value for key, value in config.items() if value is not None or key in _WINDOWS}
    for key in _NESTED:
        inner = values.get(key)
        if depth and isinstance(inner, Mapping):
            values.update(_flat(inner, depth - 1))
    return values


def _layers(config: _Config) -> int:
    """How many there are; some configurations only list them."""
    if said := config.number(*_LAYERS, most=MAX_LAYERS):
        return said
    listed = config.listed("layers_block_type") or config.text("hybrid_override_pattern")
    return min(len(listed), MAX_LAYERS) or config.need("number of layers", _LAYERS)


def _kinds(config: _Config, layers: int) -> tuple[list[str], list[str]]:
    """What each layer is (full, window, recurrent, both, none), and what had to be assumed."""
    for key in ("layer_types", "layers_block_type", "block_types"):
        listed = config.listed(key)
        if listed and all(isinstance(each, str) for each in listed):
            if len(listed) < layers:
                listed = (listed * -(-layers // len(listed)))[:layers]
            return [_kind(each) for each in listed[:layers]], []
    if pattern := config.text("hybrid_override_pattern"):
        marks = {"M": "recurrent", "*": "full", "-": "none", "E": "none"}
        return [marks.get(each, "full") for each in pattern[:layers].ljust(layers, "*")], []
    kimi = config.within("linear_attn_config")
    if kimi is not None and kimi.listed("full_attn_layers"):
        full = set(map(str, kimi.listed("full_attn_layers")))
        return ["full" if str(each + 1) in full else "recurrent" for each in range(layers)], []
    if interval := config.number("full_attention_interval"):
        return ["recurrent" if (each + 1) % interval else "full" for each in range(layers)], []
    if config.listed("attn_type_list"):
        listed = [*config.listed("attn_type_list"), *[1] * layers][:layers]
        return ["recurrent" if each == 0 else "full" for each in listed], []
    if config.family == "falconh1":
        return ["both"] * layers, []
    if config.family in ("mamba", "mamba2", "falconmamba", "rwkv", "rwkv6", "rwkv7"):
        return ["recurrent"] * layers, []
    if config.listed("attn_layer_indices"):
        full = set(map(str, config.listed("attn_layer_indices")))
        return ["full" if str(each) in full else "recurrent" for each in range(layers)], []
    if period := config.number("attn_layer_period"):
        offset = config.number("attn_layer_offset")
        return ["full" if each % period == offset else "recurrent" for each in range(layers)], []
    return _windowed(config, layers)


def _kind(word: str) -> str:
    word = word.lower()
    if any(part in word for part in _WINDOWED):
        return "window"
    if any(part in word for part in _RECURRENT):
        return "both" if "hybrid" in word else "recurrent"
    return "none" if word in _EMPTY else "full"


def _windowed(config: _Config, layers: int) -> tuple[list[str], list[str]]:
    full = ["full"] * layers
    window = _window(config)
    if not window or config.false("use_sliding_window"):
        return full, []
    if config.true("use_sliding_window") and config.number("max_window_layers"):
        dense = config.number("max_window_layers")
        return ["full" if each < dense else "window" for each in range(layers)], []
    if config.family not in PERIODS:
        if 0 < config.number(*_CONTEXT) <= window:
            return full, []
        return full, [f"its window of {window} tokens is not counted on: every layer keeps all"]
    period = config.number(
        "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"
    ) or (len(config.text("sliding_window_pattern")) or PERIODS[config.family])
    kinds = ["window" if (each + 1) % period else "full" for each in range(layers)]
    if config.family == "gemma4":
        kinds[-1] = "full"
    return kinds, []


def _window(config: _Config) -> int:
    if config.family == "llama4":
        return config.number("attention_chunk_size")
    return config.number("sliding_window", "sliding_window_size")


def _caches(config: _Config, kinds: Iterable[str], latent: bool, notes: list[str]) -> list[Cache]:
    """What each layer that attends keeps of every token."""
    full = _full(config, latent, notes)
    near = Cache(
        config.number("swa_num_key_value_heads", default=full.kv_heads),
        config.number("swa_head_dim", default=full.key_length),
        config.number("swa_v_head_dim", "swa_head_dim", default=full.value_length),
        _window(config) or None,
    )
    if config.family == "gemma4":
        # Here the plain keys are the windowed layers'; the others have their own where they say so.
        near = full._replace(window=near.window)
        width = config.number("global_head_dim", default=full.key_length)
        heads = full.kv_heads
        if config.true("attention_k_eq_v"):
            heads = config.number("num_global_key_value_heads", default=heads)
        full = Cache(heads, width, width)
    indexer = config.number("index_head_dim") if config.number("kv_lora_rank") else 0
    if indexer:
        notes.append("every layer is counted with an index of its keys")
    caches = []
    for layer, kind in enumerate(kinds):
        if kind == "window":
            caches.append(near)
        elif kind in ("full", "both"):
            caches.append(full._replace(kv_heads=_kv_heads(config, layer, full.kv_heads)))
            if indexer:
                caches.append(Cache(1, indexer, 0))
    return caches


def _kv_heads(config: _Config, layer: int, usual: int) -> int:
    """Of one layer, where they are listed one by one."""
    listed = next(filter(None, map(config.listed, _KV_HEADS)), [])
    its = listed[layer] if layer < len(listed) else None
    return its if type(its) is int and 0 <= its <= usual else usual


def _full(config: _Config, latent: bool, notes: list[str]) -> Cache:
    """The cache of a layer that attends to everything."""
    rank, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim")
    width, heads = config.number(*_WIDTH), config.number(*_HEADS)
    if rank:
        if latent:
            return Cache(1, rank + rope, 0)
        heads = config.need("number of heads", _HEADS)
        value = config.number("v_head_dim", default=width // heads)
        key = config.number("qk_nope_head_dim", default=value) + rope
        notes.append(
            f"latent attention, counted as {heads} heads of {key} and {value}: "
            f"an engine that keeps it compressed needs {rank + rope} elements a token and layer"
        )
        return Cache(heads, key, value)
    kv_heads = config.number(*_KV_HEADS)
    if config.true("multi_query") and not config.true("new_decoder_architecture"):
        kv_heads = config.number("multi_query_group_num", default=1)
    if not kv_heads:
        kv_heads = config.need("number of heads", _HEADS)
    key = config.number("head_dim", "kv_channels", "attention_head_dim")
    if not key:
        heads = config.need("number of heads", _HEADS)
        key = -(-config.need("length of a head", ("head_dim", *_WIDTH)) // heads)
    return Cache(kv_heads, key, config.number("v_head_dim", default=key))


def _state(config: _Config) -> State:
    """What a recurrent layer keeps of a sequence."""
    kimi = config.within("linear_attn_config")
    if kimi is not None:
        heads, width = kimi.number("num_heads"), kimi.number("head_dim")
        kernel = kimi.number("short_conv_kernel_size", default=4)
        return State(3 * max(kernel - 1, 0) * heads * width, heads * width * width)
    if heads := config.number("linear_num_heads"):
        width, kernel = config.number("linear_head_dim"), config.number("linear_conv_kernel_dim")
        return State(3 * max(kernel - 1, 0) * heads * width, heads * width * width)
    if config.has("linear_num_value_heads"):
        inner = config.number("linear_num_value_heads") * config.number("linear_value_head_dim")
        return convolved(
            config.number("linear_conv_kernel_dim"),
            inner,
            config.number("linear_num_key_heads"),
            config.number("linear_key_head_dim"),
        )
    width = config.number(*_WIDTH)
    if config.has("conv_L_cache"):
        return State(width * max(config.number("conv_L_cache") - 1, 0), 0)
    heads = config.number("mamba_n_heads", "mamba_num_heads")
    state = config.number("mamba_d_state", "ssm_state_size", "state_size")
    kernel = config.number("mamba_d_conv", "conv_kernel", default=4)
    grouped = heads or config.family == "mamba2"
    inner = config.number("mamba_d_ssm") or heads * config.number("mamba_d_head", "mamba_head_dim")
    inner = inner or width * config.number("mamba_expand", "expand")
    groups = config.number("mamba_n_groups", "n_groups", default=1) if grouped else 0
    if state:
        return convolved(kernel, inner, groups, state)
    if config.listed("attn_type_list"):  # lightning attention
        length = config.number("head_dim")
        return State(0, length * length * config.number(*_HEADS))
    if length := config.number("head_size", "attention_head_size"):  # RWKV
        return State(2 * width, width * length)
    return State(0, 0)
