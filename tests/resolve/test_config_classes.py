"""Configurations against transformers' own classes: what they fill in, which layers they window."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import transformers

from cpudeploy.resolve.config import shape_of

PLAIN = (
    "llama mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma phi3 cohere granite glm glm4 olmo2 internlm3 smollm3"
)
WINDOWED = "gemma2 gemma3_text gemma3n_text gemma4_text gpt_oss cohere2 llama4_text exaone4 olmo3 afmoe"
GATED = "qwen3_next qwen3_5_text qwen3_5_moe_text"
OTHERS = (
    "deepseek_v2 deepseek_v3 minicpm3 falcon_h1 jamba mamba mamba2 lfm2 starcoder2 glm_moe_dsa modernbert"
)
FAMILIES = f"{PLAIN} {WINDOWED} {GATED}".split()
LEFT = ("model_type", "num_hidden_layers", "hidden_size", "num_attention_heads")


def of_class(family: str, **values: Any) -> dict[str, Any]:
    """The whole configuration that the family's class makes of `values`."""
    made: dict[str, Any] = transformers.CONFIG_MAPPING[family](**values).to_dict()
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_caches_are_what_the_classes_attributes_say(family: str) -> None:
    theirs = of_class(family)
    layers = theirs["num_hidden_layers"]
    kinds = theirs.get("layer_types") or ["full_attention"] * layers
    own = kinds[: layers - (theirs.get("num_kv_shared_layers") or 0)]
    head = theirs.get("head_dim") or theirs["hidden_size"] // theirs["num_attention_heads"]
    window = theirs.get("attention_chunk_size") or theirs.get("sliding_window")
    counted: collections.Counter[tuple[int, int, int | None]] = collections.Counter()
    for kind in own:
        if kind == "full_attention":
            width = (theirs.get("global_head_dim") or 512) if family == "gemma4_text" else head
            counted[theirs["num_key_value_heads"], width, None] += 1
        elif kind != "linear_attention":
            counted[theirs["num_key_value_heads"], head, window] += 1
    shape = shape_of(theirs)
    ours = {(each.kv_heads, each.key_length, each.window): each.layers for each in shape.attention}
    assert ours == counted
    assert sum(each.layers for each in shape.recurrent) == kinds.count("linear_attention")


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS.split()])
def test_what_a_configuration_leaves_out_is_what_its_class_fills_in(family: str) -> None:
    whole = of_class(family)
    short = {key: whole[key] for key in LEFT if key in whole}
    assert shape_of(short).attention == shape_of(whole).attention
    assert shape_of(short).recurrent == shape_of(whole).recurrent


def test_one_that_sees_nests_its_language_model() -> None:
    whole = of_class("gemma3", text_config={"num_hidden_layers": 34, "hidden_size": 2560})
    layers = {each.window: each.layers for each in shape_of(whole).attention}
    assert layers == {4096: 29, None: 5}
