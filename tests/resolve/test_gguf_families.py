"""Headers of real families, written by the gguf library as its conversions write them, become shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.errors import HubError
from cpudeploy.resolve.files import read_header
from cpudeploy.resolve.gguf import Parsed, parse_header
from cpudeploy.resolve.gguf_families import KNOWN
from cpudeploy.resolve.gguf_shape import describe
from cpudeploy.types.base import from_json, to_json
from cpudeploy.types.shape import ModelShape, RecurrentLayers

from .builders import attends

Header = Callable[[Any], None]


def read(
    folder: Path,
    architecture: str,
    layers: int,
    embedding: int,
    heads: int | list[int],
    kv: int | list[int] | None = None,
    more: Header = lambda writer: None,
) -> ModelShape:
    """What is read of a header with these values and no tensors."""
    path = folder / "header.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(131072)
    writer.add_block_count(layers)
    writer.add_embedding_length(embedding)
    writer.add_head_count(heads)
    if kv is not None:
        writer.add_head_count_kv(kv)
    more(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    assert gguf.GGUFReader(path).fields  # the library accepts it too
    with path.open("rb") as file:
        return describe(read_header(file, "x", parse_header), where="x")


def lengths(key: int, value: int | None = None) -> Header:
    def more(writer: Any) -> None:
        writer.add_key_length(key)
        writer.add_value_length(key if value is None else value)

    return more


def sliding(window: int, pattern: int | list[bool] | None = None, key: int = 0, near: int = 0) -> Header:
    def more(writer: Any) -> None:
        writer.add_sliding_window(window)
        if pattern is not None:
            writer.add_sliding_window_pattern(pattern)
        if key:
            lengths(key)(writer)
        if near:
            writer.add_key_length_swa(near)
            writer.add_value_length_swa(near)

    return more


def state_space(inner: int, state: int, groups: int, rank: int, kernel: int = 4) -> Header:
    def more(writer: Any) -> None:
        writer.add_ssm_conv_kernel(kernel)
        writer.add_ssm_inner_size(inner)
        writer.add_ssm_state_size(state)
        writer.add_ssm_group_count(groups)
        writer.add_ssm_time_step_rank(rank)

    return more


def both(*parts: Header) -> Header:
    def more(writer: Any) -> None:
        for part in parts:
            part(writer)

    return more


def experts(count: int, used: int) -> Header:
    def more(writer: Any) -> None:
        writer.add_expert_count(count)
        writer.add_expert_used_count(used)

    return more


def repeated(pattern: list[bool], layers: int) -> list[bool]:
    return (pattern * layers)[:layers]


SIX = [True] * 5 + [False]

PLAIN = [
    ("llama", 32, 4096, 32, 8, lengths(128), attends(32, 8, 128)),
    ("llama", 30, 576, 9, 3, sliding(4096), attends(30, 3, 64)),  # Mistral's window has no effect there
    ("llama", 24, 1536, 16, 2, lengths(128), attends(24, 2, 128)),
    ("llama", 32, 4096, 32, 8, experts(8, 2), attends(32, 8, 128)),
    ("qwen2", 24, 896, 14, 2, lengths(64), attends(24, 2, 64)),
    ("qwen3", 36, 2560, 32, 8, lengths(128), attends(36, 8, 128)),
    ("qwen3moe", 48, 2048, 32, 4, both(lengths(128), experts(128, 8)), attends(48, 4, 128)),
    ("phi3", 32, 3072, 24, 8, sliding(262144), attends(32, 8, 128)),
    (
        "minicpm3",
        62,
        2560,
        40,
        40,
        both(lambda writer: writer.add_key_length(96), lambda writer: writer.add_kv_lora_rank(256)),
        attends(62, 40, 96, 64),
    ),
    ("chatglm", 40, 4096, 32, 2, lengths(128), attends(40, 2, 128)),
    ("granite", 40, 2048, 16, 4, lengths(128), attends(40, 4, 128)),
]


@pytest.mark.parametrize("family", PLAIN, ids=lambda family: f"{family[0]}-{family[1]}")
def test_every_layer_keeps_the_whole_context(tmp_path: Path, family: tuple[Any, ...]) -> None:
    *given, attention = family
    shape = read(tmp_path, *given)
    assert shape.attention == (attention,)
    assert (shape.recurrent, shape.notes) == ((), ())


WINDOWED = [
    ("gemma2", 26, 2304, 8, 4, lengths(256), {(13, 4096), (13, None)}),
    ("gemma3", 18, 640, 4, 1, sliding(512, key=256), {(15, 512), (3, None)}),
    ("gemma3", 34, 2560, 8, 4, sliding(1024, key=256), {(29, 1024), (5, None)}),
    ("gemma3", 62, 5376, 32, 16, sliding(1024, key=128), {(52, 1024), (10, None)}),
    ("gemma3", 34, 2560, 8, 4, lengths(256), {(34, None)}),
    ("gemma3n", 30, 2048, 8, 2, sliding(512, key=256), {(16, 512), (4, None)}),
    ("gpt-oss", 24, 2880, 64, 8, sliding(128, key=64), {(12, 128), (12, None)}),
    ("cohere2", 32, 4096, 32, 8, sliding(4096), {(24, 4096), (8, None)}),
    ("cohere2", 32, 4096, 32, 8, sliding(4096, 8), {(28, 4096), (4, None)}),
    ("llama4", 48, 5120, 40, 8, lengths(128), {(36, 8192), (12, None)}),
    ("llama4", 48, 5120, 40, 8, sliding(0), {(48, None)}),
    ("smallthinker", 32, 1536, 12, 2, sliding(4096), {(24, 4096), (8, None)}),
    ("exaone4", 64, 5120, 40, 8, sliding(4096), {(48, 4096), (16, None)}),
    ("exaone4", 30, 2048, 32, 8, sliding(4096), {(30, None)}),
    ("olmo2", 32, 4096, 32, 32, lambda writer: None, {(32, None)}),
    ("mimo2", 6, 4096, 64, 4, sliding(128, repeated(SIX, 6)), {(5, 128), (1, None)}),
    ("mimo2", 6, 4096, 64, 4, sliding(128), {(6, None)}),
]


@pytest.mark.parametrize("family", WINDOWED, ids=lambda family: f"{family[0]}-{family[1]}")
def test_some_layers_look_back_only_so_far(tmp_path: Path, family: tuple[Any, ...]) -> None:
    *given, expected = family
    assert {(each.layers, each.window) for each in read(tmp_path, *given).attention} == expected


def test_which_layer_has_the_window_is_not_the_same_everywhere(tmp_path: Path) -> None:
    for architecture, first in (("cohere2", 512), ("smallthinker", None)):
        shape = read(tmp_path, architecture, 4, 1024, 8, [4, 2, 2, 2], sliding(512))
        assert (shape.attention[0].kv_heads, shape.attention[0].window) == (4, first)


def test_windowed_layers_may_have_heads_of_their_own(tmp_path: Path) -> None:
    kv = [8 if near else 1 for near in repeated(SIX, 48)]
    more = sliding(1024, repeated(SIX, 48), key=512, near=256)
    shape = read(tmp_path, "gemma4", 48, 3840, 16, kv, more)
    assert shape.attention == (attends(40, 8, 256, window=1024), attends(8, 1, 512))


def test_layers_that_share_a_cache_have_none(tmp_path: Path) -> None:
    pattern = [True, True, True, True, False]

    def shared(writer: Any) -> None:
        writer.add_shared_kv_layers(20)

    more = both(sliding(512, repeated(pattern, 35), key=512, near=256), shared)
    shape = read(tmp_path, "gemma4", 35, 1536, 8, 1, more)
    assert shape.attention == (attends(12, 1, 256, window=512), attends(3, 1, 512))
    assert any("20 layers share" in note for note in shape.notes)


GATED = [
    ("qwen35", 24, 1024, 8, 2, state_space(2048, 128, 16, 16), 6, 19.27),
    ("qwen35", 64, 5120, 24, 4, state_space(6144, 128, 16, 48), 16, 149.62),
    ("qwen3next", 48, 2048, 16, 2, state_space(4096, 128, 16, 32), 12, 75.375),
]


@pytest.mark.parametrize("family", GATED, ids=lambda family: f"{family[0]}-{family[1]}")
def test_every_fourth_layer_attends_and_the_others_keep_a_state(
    tmp_path: Path, family: tuple[Any, ...]
) -> None:
    architecture, layers, embedding, heads, kv, more, attending, mib = family
    shape = read(tmp_path, architecture, layers, embedding, heads, kv, both(more, lengths(256)))
    assert shape.attention == (attends(attending, kv, 256),)
    [state] = shape.recurrent
    assert state.layers == layers - attending
    assert state.layers * (state.conv + state.state) * 4 / 2**20 == pytest.approx(mib, abs=0.006)


def test_the_header_may_say_which_layers_attend(tmp_path: Path) -> None:
    ssm = both(state_space(2048, 128, 16, 16), lengths(256))
    every = both(ssm, lambda writer: writer.add_full_attention_interval(3))
    assert read(tmp_path, "qwen35", 24, 1024, 8, 2, every).attention == (attends(8, 2, 256),)
    name = "qwen35.attention.recurrent_layers"
    listed = both(ssm, lambda writer: writer.add_array(name, [True] * 22 + [False] * 2))
    assert read(tmp_path, "qwen35", 24, 1024, 8, 2, listed).attention == (attends(2, 2, 256),)


def test_layers_for_multi_token_prediction_are_noted_and_not_counted(tmp_path: Path) -> None:
    drafting = both(
        state_space(6144, 128, 16, 48),
        lengths(256),
        lambda writer: writer.add_nextn_predict_layers(1),
    )
    shape = read(tmp_path, "qwen35", 65, 5120, 24, 4, drafting)
    assert (shape.layers, shape.attention) == (65, (attends(16, 4, 256),))
    assert shape.recurrent[0].layers == 48
    assert any("multi-token prediction" in note for note in shape.notes)


def test_layers_without_kv_heads_keep_a_state(tmp_path: Path) -> None:
    kv = [4 if layer in (5, 15, 25, 35) else 0 for layer in range(40)]
    shape = read(tmp_path, "granitehybrid", 40, 1536, 12, kv, state_space(3072, 128, 1, 48))
    assert shape.attention == (attends(4, 4, 128),)
    assert shape.recurrent == (RecurrentLayers(layers=36, conv=3 * (3072 + 256), state=128 * 3072),)


def test_layers_may_attend_and_keep_a_state_at_once(tmp_path: Path) -> None:
    shape = read(tmp_path, "falcon-h1", 44, 3072, 12, 2, both(state_space(3072, 256, 1, 24), lengths(128)))
    assert shape.attention == (attends(44, 2, 128),)
    assert shape.recurrent == (RecurrentLayers(layers=44, conv=3 * (3072 + 512), state=256 * 3072),)


def test_layers_that_are_feed_forward_only_keep_nothing(tmp_path: Path) -> None:
    def wide(writer: Any) -> None:
        writer.add_feed_forward_length([0, 21504, 0, 0])

    more = both(state_space(8192, 128, 8, 128), lengths(128), wide)
    shape = read(tmp_path, "nemotron_h", 4, 4096, 32, [0, 0, 0, 8], more)
    assert shape.attention == (attends(1, 8, 128),)
    assert [each.layers for each in shape.recurrent] == [2]


def test_a_hybrid_caches_its_layers_for_multi_token_prediction_with_the_others(tmp_path: Path) -> None:
    more = both(
        state_space(8192, 128, 8, 128),
        lengths(128),
        lambda writer: writer.add_feed_forward_length([0, 2688, 0]),
        lambda writer: writer.add_nextn_predict_layers(1),
    )
    shape = read(tmp_path, "nemotron_h_moe", 3, 4096, 32, [8, 0, 8], more)
    assert (shape.attention, shape.notes) == ((attends(2, 8, 128),), ())


def test_other_kinds_of_states(tmp_path: Path) -> None:
    def short(writer: Any) -> None:
        writer.add_shortconv_l_cache(3)

    def kimi(writer: Any) -> None:
        writer.add_ssm_conv_kernel(4)
        writer.add_kda_head_dim(128)
        mla(writer)

    lfm2 = read(tmp_path, "lfm2", 4, 1024, 16, [0, 0, 8, 0], short)
    assert lfm2.attention == (attends(1, 8, 64),)
    assert lfm2.recurrent == (RecurrentLayers(layers=3, conv=2048, state=0),)
    linear = read(tmp_path, "kimi-linear", 4, 2304, 32, [0, 0, 0, 1], kimi)
    assert linear.attention == (attends(1, 1, 576, 0),)
    assert linear.recurrent == (RecurrentLayers(layers=3, conv=3 * 3 * 4096, state=32 * 128 * 128),)
    mamba = read(tmp_path, "mamba2", 64, 2560, 0, 0, state_space(5120, 128, 1, 80))
    assert mamba.attention == ()
    assert mamba.recurrent == (RecurrentLayers(layers=64, conv=3 * (5120 + 256), state=128 * 5120),)


def mla(writer: Any) -> None:
    writer.add_kv_lora_rank(512)
    lengths(576, 512)(writer)
    writer.add_key_length_mla(192)
    writer.add_value_length_mla(128)


def test_the_header_decides_whether_latent_attention_is_compressed(tmp_path: Path) -> None:
    latent = read(tmp_path, "deepseek2", 61, 7168, 128, 1, both(mla, experts(256, 8)))
    assert latent.attention == (attends(61, 1, 576, 0),)
    assert (latent.experts, latent.experts_used) == (256, 8)
    expanded = both(lambda writer: writer.add_kv_lora_rank(512), lengths(192, 128))
    shape = read(tmp_path, "deepseek2", 27, 2048, 16, 16, expanded)
    assert shape.attention == (attends(27, 16, 192, 128),)
    assert any("expanded" in note for note in shape.notes)


def test_sparse_attention_keeps_an_index_besides(tmp_path: Path) -> None:
    def indexed(writer: Any) -> None:
        mla(writer)
        writer.add_indexer_key_length(128)
        writer.add_array("glm-dsa.attention.indexer.types", [1] * 21 + [0] * 57)

    shape = read(tmp_path, "glm-dsa", 78, 6144, 64, 1, indexed)
    assert shape.attention == (attends(78, 1, 576, 0), attends(21, 1, 128, 0))


KEYS = [
    "block_count",
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.recurrent_layers",
    "attention.indexer.key_length",
    "attention.indexer.types",
    "feed_forward_length",
    "full_attention_interval",
    "nextn_predict_layers",
    "expert_used_count",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "shortconv.l_cache",
    "kda.head_dim",
    "wkv.head_size",
]
NUMBERS = st.integers(0, 9) | st.sampled_from([128, 2**20, 2**40, 2**64 - 1])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([*sorted(KNOWN), "brandnew"]),
    st.integers(1, 6),
    st.dictionaries(st.sampled_from(KEYS), NUMBERS | st.lists(NUMBERS, max_size=6)),
)
def test_a_hostile_header_ends_in_a_shape_or_in_words(
    architecture: str, layers: int, values: dict[str, int | list[int]]
) -> None:
    metadata: dict[str, Any] = {"general.architecture": architecture, f"{architecture}.block_count": layers}
    metadata |= {f"{architecture}.{key}": each for key, each in values.items() if isinstance(each, int)}
    lists = {f"{architecture}.{key}": (*each,) for key, each in values.items() if isinstance(each, list)}
    parsed = Parsed(
        metadata=metadata,
        lists=lists,
        chat_template=False,
        tensor_bytes=0,
        unknown_types=0,
        parameters=0,
        matrices={},
        embedding={},
        output=False,
        expert_bytes=0,
        data_offset=32,
    )
    try:
        shape = describe(parsed, where="x")
    except HubError as error:
        assert error.what and error.do
    else:
        assert from_json(to_json(shape), ModelShape) == shape
        assert sum(each.layers for each in shape.attention) <= 2 * shape.layers


def test_encoders_keep_no_cache(tmp_path: Path) -> None:
    assert read(tmp_path, "nomic-bert", 12, 768, 12).attention == ()


def test_what_is_not_known_is_counted_in_full_and_said(tmp_path: Path) -> None:
    shape = read(tmp_path, "brandnew", 10, 640, 10, 5, both(sliding(128), state_space(1280, 16, 1, 40)))
    assert shape.attention == (attends(10, 5, 64),)
    assert [each.layers for each in shape.recurrent] == [10]
    assert any("brandnew" in note for note in shape.notes)
    assert any("128 tokens" in note for note in shape.notes)
