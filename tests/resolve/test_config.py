"""config.json becomes a shape: published configurations of real families, and what hostile ones get."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpudeploy.errors import HubError
from cpudeploy.resolve.config import shape_of
from cpudeploy.types.base import from_json, to_json
from cpudeploy.types.shape import AttentionLayers, ModelShape, RecurrentLayers

from .builders import attends


def state_bytes(shape: ModelShape) -> int:
    """Of one sequence, in f32."""
    return sum(each.layers * (each.conv + each.state) * 4 for each in shape.recurrent)


def base(
    model_type: str, layers: int, hidden: int, heads: int, kv: int | None, **more: Any
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        **more,
    }


GATED = {
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
GRANITE = {
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_n_heads": 48,
    "mamba_d_head": 64,
    "mamba_d_conv": 4,
}

FAMILIES = [
    (base("llama", 32, 4096, 32, 8), (attends(32, 8, 128),)),
    (base("llama", 24, 1536, 16, 2, head_dim=128), (attends(24, 2, 128),)),
    (base("qwen2", 24, 896, 14, 2, sliding_window=32768, use_sliding_window=False), (attends(24, 2, 64),)),
    (base("qwen3", 28, 1024, 16, 8, head_dim=128), (attends(28, 8, 128),)),
    (base("qwen3_moe", 48, 2048, 32, 4, head_dim=128, num_experts=128), (attends(48, 4, 128),)),
    (base("mistral", 32, 4096, 32, 8, sliding_window=4096), (attends(32, 8, 128),)),
    (base("phi3", 32, 3072, 24, 8, sliding_window=262144), (attends(32, 8, 128),)),
    (base("internlm", 32, 4096, 32, 0), (attends(32, 32, 128),)),
    (
        base("gemma3_text", 26, 1152, 4, 1, head_dim=256, sliding_window=512, sliding_window_pattern=6),
        (attends(22, 1, 256, window=512), attends(4, 1, 256)),
    ),
    (
        base("gemma3n_text", 30, 2048, 8, 2, head_dim=256, sliding_window=512, num_kv_shared_layers=10),
        (attends(16, 2, 256, window=512), attends(4, 2, 256)),
    ),
    (
        base(
            "gemma4_text",
            30,
            2816,
            16,
            8,
            head_dim=256,
            global_head_dim=512,
            num_global_key_value_heads=2,
            attention_k_eq_v=True,
            sliding_window=1024,
            num_kv_shared_layers=0,
        ),
        (attends(25, 8, 256, window=1024), attends(5, 2, 512)),
    ),
    (
        base("gpt_oss", 24, 2880, 64, 8, head_dim=64, sliding_window=128),
        (attends(12, 8, 64, window=128), attends(12, 8, 64)),
    ),
    (base("falcon_h1", 44, 3072, 12, 2, head_dim=128, mamba_d_ssm=3072), (attends(44, 2, 128),)),
    (
        base("minicpm3", 62, 2560, 40, 40, kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32),
        (attends(62, 40, 96, 64),),
    ),
    (base("xlm-roberta", 24, 1024, 16, 0), ()),
    (
        base("openelm", 4, 1280, 20, None) | {"num_kv_heads": [3, 3, 5]},
        (attends(2, 3, 64), attends(2, 5, 64)),
    ),
]


@pytest.mark.parametrize(("config", "attention"), FAMILIES)
def test_a_family_keeps_what_its_engines_log(
    config: dict[str, Any], attention: tuple[AttentionLayers, ...]
) -> None:
    assert shape_of(config).attention == attention


@pytest.mark.parametrize(
    ("config", "mib"),
    [
        (base("qwen3_5", 24, 1024, 8, 2, head_dim=256, **GATED, linear_num_value_heads=16), 19.27),
        (base("qwen3_5", 64, 5120, 24, 4, head_dim=256, **GATED, linear_num_value_heads=48), 149.62),
        (
            base(
                "granitemoehybrid", 40, 1536, 12, 4, **GRANITE, layer_types=["mamba"] * 36 + ["attention"] * 4
            ),
            55.37,
        ),
    ],
)
def test_the_state_of_a_sequence_is_what_engines_log(config: dict[str, Any], mib: float) -> None:
    assert state_bytes(shape_of(config)) / 2**20 == pytest.approx(mib, abs=0.006)


def test_layers_that_attend_are_those_listed_or_every_fourth() -> None:
    listed = ["linear_attention", "linear_attention", "full_attention"] * 8
    config = base("qwen3_5", 24, 1024, 8, 2, **GATED, linear_num_value_heads=16)
    assert shape_of(config).attention == (attends(6, 2, 256),)
    assert shape_of({**config, "layer_types": listed}).attention == (attends(8, 2, 256),)


def test_latent_attention_is_counted_expanded_unless_the_engine_keeps_it_compressed() -> None:
    ranks = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    config = base("deepseek_v2", 27, 2048, 16, 16, **ranks)
    assert shape_of(config).attention == (attends(27, 16, 192, 128),)
    assert "compressed needs 576 elements" in " ".join(shape_of(config).notes)
    assert shape_of(config, latent=True).attention == (attends(27, 1, 576, 0),)


def test_a_mixed_pattern_of_mamba_attention_and_perceptrons() -> None:
    config = base("nemotron_h", 6, 4096, 32, 8, hybrid_override_pattern="M-M*-E")
    shape = shape_of({**config, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8})
    assert shape.attention == (attends(1, 8, 128),)
    inner = 128 * 64
    assert shape.recurrent == (RecurrentLayers(layers=2, conv=3 * (inner + 2 * 8 * 128), state=128 * inner),)


def test_the_language_model_is_found_within_a_model_that_sees() -> None:
    inner = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    shape = shape_of({"model_type": "gemma3", "text_config": inner, "num_hidden_layers": 9})
    assert shape.attention == (attends(29, 4, 256, window=1024), attends(5, 4, 256))
    assert (shape.architecture, shape.heads, shape.vocabulary) == ("gemma3_text", 8, 262208)


def test_null_is_as_if_it_were_not_there() -> None:
    config = base("qwen3", 28, 1024, 16, 8, head_dim=None, sliding_window=None, layer_types=None)
    assert shape_of({**config, "model_type": None, "architectures": ["Qwen3ForCausalLM"]}).attention == (
        attends(28, 8, 128),
    )


def test_what_is_not_known_is_counted_in_full_and_said() -> None:
    shape = shape_of(base("brandnew", 10, 640, 10, 5, sliding_window=128))
    assert shape.attention == (attends(10, 5, 64),)
    assert any("brandnew" in note for note in shape.notes)
    assert any("128 tokens" in note for note in shape.notes)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "number of layers"),
        ({"num_hidden_layers": 2}, "number of heads"),
        ({"num_hidden_layers": 2, "num_attention_heads": 4}, "length of a head"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_hidden_layers": -3}, "num_hidden_layers is -3"),
    ],
)
def test_what_can_not_be_counted_is_refused_in_words(config: dict[str, Any], told: str) -> None:
    with pytest.raises(HubError, match=told) as error:
        shape_of(config)
    assert error.value.do


@pytest.mark.parametrize("nested", [False, True])
def test_a_window_that_is_null_is_none(nested: bool) -> None:
    """Not left out, which would mean the class's own."""
    config = base("gemma2", 26, 2304, 8, 4, head_dim=256, sliding_window=None)
    whole = {"model_type": "vision", "text_config": config} if nested else config
    assert shape_of(whole).attention == (attends(26, 4, 256),)
    del config["sliding_window"]
    assert shape_of(whole).attention == (attends(13, 4, 256, window=4096), attends(13, 4, 256))


def test_a_cache_that_no_machine_could_hold_is_refused() -> None:
    config = base("llama", 2, 64, 4, 1 << 30, head_dim=1 << 20)
    with pytest.raises(HubError, match="a cache larger than any machine holds"):
        shape_of(config)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**20, 2**40])
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = sorted(
    {key for config, _ in FAMILIES for key in config}
    | {"layer_types", "text_config", "architectures", "linear_attn_config", "hybrid_override_pattern"}
    | {"attn_layer_period", "full_attention_interval", "attn_type_list", "attn_layer_indices"}
)


@settings(max_examples=300, deadline=None)
@example(base("llama", 32, 4096, 32, 8), {"num_key_value_heads": [True]})
@given(st.sampled_from([config for config, _ in FAMILIES]), st.dictionaries(st.sampled_from(KEYS), values))
def test_a_hostile_configuration_ends_in_a_shape_or_in_words(
    config: dict[str, Any], changed: dict[str, Any]
) -> None:
    try:
        shape = shape_of({**config, **changed})
    except HubError as error:
        assert error.what and error.do
    else:
        assert from_json(to_json(shape), ModelShape) == shape
        assert sum(each.layers for each in shape.attention) <= 2 * shape.layers
