"""What an engine set aside for headers like these, and what their shapes come to.

The figures are llama.cpp's own: its library, build 11434, was given each header without tensors, for 8192 tokens
of one sequence in f16, and its log says how much KV cache (MiB) and state (MiB) that takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest

from cpudeploy.resolve.files import read_header
from cpudeploy.resolve.gguf import parse_header
from cpudeploy.resolve.gguf_shape import describe

KEYS = {
    "k": "attention.key_length",
    "v": "attention.value_length",
    "k_mla": "attention.key_length_mla",
    "v_mla": "attention.value_length_mla",
    "k_swa": "attention.key_length_swa",
    "v_swa": "attention.value_length_swa",
    "rank": "attention.kv_lora_rank",
    "window": "attention.sliding_window",
    "pattern": "attention.sliding_window_pattern",
    "shared": "attention.shared_kv_layers",
    "recurrent": "attention.recurrent_layers",
    "index": "attention.indexer.key_length",
    "indexed": "attention.indexer.types",
    "drafting": "nextn_predict_layers",
    "wide": "feed_forward_length",
    "kernel": "ssm.conv_kernel",
    "inner": "ssm.inner_size",
    "state": "ssm.state_size",
    "groups": "ssm.group_count",
    "short": "shortconv.l_cache",
    "kda": "kda.head_dim",
    "wkv": "wkv.head_size",
    "shift": "token_shift_count",
}
TOKENS, BATCH, GRAIN = 8192, 512, 256

# architecture, (layers, embedding, heads, KV heads), other keys, KV cache, state
LOGGED: list[tuple[str, tuple[Any, ...], dict[str, Any], float, float]] = [
    ("afmoe", (32, 2048, 16, 4), {"k": 128, "window": 2048}, 248, 0),
    ("chatglm", (40, 4096, 32, 2), {"k": 128}, 320, 0),
    ("cohere2", (32, 4096, 32, 8), {"k": 128, "window": 4096}, 688, 0),
    ("cohere2moe", (32, 2048, 16, 4), {"k": 128, "window": 4096}, 344, 0),
    ("deepseek2", (27, 2048, 16, 16), {"k": 192, "v": 128, "rank": 512}, 2160, 0),
    ("deepseek2", (27, 2048, 16, 1), {"k": 576, "v": 512, "k_mla": 192, "v_mla": 128, "rank": 512}, 243, 0),
    (
        "deepseek32",
        (6, 7168, 128, 1),
        {"k": 576, "v": 512, "k_mla": 192, "v_mla": 128, "rank": 512, "index": 128},
        66,
        0,
    ),
    ("exaone4", (64, 5120, 40, 8), {"k": 128, "window": 4096}, 1376, 0),
    (
        "falcon-h1",
        (44, 3072, 12, 2),
        {"k": 128, "kernel": 4, "inner": 3072, "state": 256, "groups": 1},
        352,
        133.8,
    ),
    ("gemma2", (26, 2304, 8, 4), {"k": 256, "window": 4096}, 650, 0),
    ("gemma3", (18, 640, 4, 1), {"k": 256, "window": 512}, 39, 0),
    ("gemma3", (34, 2560, 8, 4), {"k": 256, "window": 1024}, 334, 0),
    (
        "gemma3n",
        (30, 2048, 8, 2),
        {"k": 256, "window": 512, "pattern": [1, 1, 1, 1, 0] * 6, "shared": 10},
        96,
        0,
    ),
    (
        "gemma4",
        (48, 3840, 16, [8, 8, 8, 8, 8, 1] * 8),
        {"k": 512, "k_swa": 256, "window": 1024, "pattern": [1, 1, 1, 1, 1, 0] * 8},
        608,
        0,
    ),
    (
        "gemma4",
        (35, 1536, 8, 1),
        {"k": 512, "k_swa": 256, "window": 512, "pattern": [1, 1, 1, 1, 0] * 7, "shared": 20},
        60,
        0,
    ),
    (
        "glm-dsa",
        (78, 6144, 64, 1),
        {"k": 576, "v": 512, "k_mla": 256, "v_mla": 256, "rank": 512, "index": 128},
        858,
        0,
    ),
    (
        "glm-dsa",
        (6, 6144, 64, 1),
        {"k": 576, "v": 512, "k_mla": 256, "v_mla": 256, "rank": 512, "index": 128, "indexed": [1, 0, 0] * 2},
        58,
        0,
    ),
    ("glm4moe", (47, 4096, 96, 8), {"k": 128, "drafting": 1}, 1472, 0),
    ("gpt-oss", (24, 2880, 64, 8), {"k": 64, "window": 128}, 210, 0),
    ("granite_swa", (8, 2048, 16, 4), {"k": 128, "window": 512, "pattern": [1, 1, 1, 0] * 2}, 44, 0),
    (
        "jamba",
        (8, 4096, 32, [0, 0, 0, 0, 8, 0, 0, 0]),
        {"kernel": 4, "inner": 8192, "state": 16, "groups": 0},
        32,
        4.16,
    ),
    (
        "kimi-linear",
        (8, 2304, 32, [0, 0, 0, 1] * 2),
        {"k": 576, "v": 512, "k_mla": 192, "v_mla": 128, "rank": 512, "kernel": 4, "kda": 128},
        18,
        12.84,
    ),
    ("laguna", (8, 2048, 16, 4), {"k": 128, "window": 512}, 44, 0),
    ("lfm2", (16, 1024, 16, [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]), {"short": 3}, 96, 0.08),
    ("lfm2", (4, 1024, 16, [0, 0, 8, 8]), {"window": 512, "short": 3}, 4, 0.02),
    ("llama", (32, 4096, 32, 8), {"k": 128}, 1024, 0),
    ("llama4", (48, 5120, 40, 8), {"k": 128}, 1536, 0),
    ("mamba", (24, 768, 0, 0), {"kernel": 4, "inner": 1536, "state": 16, "groups": 0}, 0, 2.67),
    ("mamba2", (64, 2560, 0, 0), {"kernel": 4, "inner": 5120, "state": 128, "groups": 1}, 0, 163.94),
    ("mellum", (28, 2048, 16, 2), {"k": 128, "window": 1024}, 87.5, 0),
    (
        "mimo2",
        (6, 1024, 8, [2, 4, 4, 4, 4, 4]),
        {"k": 192, "v": 128, "window": 128, "pattern": [1, 1, 1, 1, 1, 0]},
        28.44,
        0,
    ),
    ("minicpm3", (62, 2560, 40, 40), {"k": 96, "v": 64, "rank": 256}, 6200, 0),
    ("minimax-01", (16, 1024, 8, 2), {"k": 128}, 16, 7),
    ("muse-glimmer", (8, 2048, 16, 4), {"k": 128, "window": 512}, 44, 0),
    (
        "nemotron_h",
        (6, 4096, 32, [0, 0, 0, 8, 0, 0]),
        {"wide": [0, 21504, 0] * 2, "k": 128, "kernel": 4, "inner": 8192, "state": 128, "groups": 8},
        32,
        12.35,
    ),
    (
        "nemotron_h_moe",
        (7, 4096, 32, [0, 0, 0, 8, 0, 0, 8]),
        {
            "wide": [0, 2688, 0] * 2 + [0],
            "k": 128,
            "drafting": 1,
            "kernel": 4,
            "inner": 8192,
            "state": 128,
            "groups": 8,
        },
        64,
        12.35,
    ),
    ("olmo2", (32, 4096, 32, 32), {"k": 128, "window": 4096}, 2752, 0),
    ("phi3", (32, 3072, 24, 8), {"window": 262144}, 1024, 0),
    (
        "plamo2",
        (4, 2048, 16, [0, 4] * 2),
        {"k": 128, "kernel": 4, "inner": 4096, "state": 64, "groups": 0},
        32,
        2.09,
    ),
    ("plamo3", (24, 2048, 16, 2), {"k": 128, "window": 2048}, 76.5, 0),
    ("qwen3", (36, 2560, 32, 8), {"k": 128}, 1152, 0),
    (
        "qwen35",
        (24, 1024, 8, 2),
        {"k": 256, "kernel": 4, "inner": 2048, "state": 128, "groups": 16},
        96,
        19.27,
    ),
    (
        "qwen35",
        (65, 5120, 24, 4),
        {"k": 256, "drafting": 1, "kernel": 4, "inner": 6144, "state": 128, "groups": 16},
        512,
        149.62,
    ),
    (
        "qwen35",
        (24, 1024, 8, 2),
        {"k": 256, "recurrent": [1] * 22 + [0] * 2, "kernel": 4, "inner": 2048, "state": 128, "groups": 16},
        32,
        23.55,
    ),
    (
        "qwen35moe",
        (40, 2048, 16, 2),
        {"k": 256, "kernel": 4, "inner": 4096, "state": 128, "groups": 16},
        160,
        62.81,
    ),
    ("qwen3moe", (48, 2048, 32, 4), {"k": 128}, 768, 0),
    (
        "qwen3next",
        (48, 2048, 16, 2),
        {"k": 256, "kernel": 4, "inner": 4096, "state": 128, "groups": 16},
        192,
        75.38,
    ),
    ("rwkv7", (12, 768, 0, 0), {"wkv": 64, "shift": 2}, 0, 2.32),
    ("smallthinker", (32, 1536, 12, 2), {"k": 128, "window": 4096}, 172, 0),
    ("starcoder2", (30, 3072, 24, 2), {"k": 128}, 240, 0),
    (
        "step35",
        (4, 2048, [32, 48, 48, 48], [4, 8, 8, 8]),
        {"k": 128, "window": 512, "pattern": [0, 1, 1, 1]},
        28,
        0,
    ),
]


def write(path: Path, architecture: str, shape: tuple[Any, ...], keys: dict[str, Any]) -> Path:
    layers, embedding, heads, kv_heads = shape
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_embedding_length(embedding)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    as_wide = {value: keys[key] for value, key in (("v", "k"), ("v_swa", "k_swa")) if key in keys}
    for name, value in {**as_wide, **keys}.items():
        full = f"{architecture}.{KEYS[name]}"
        if isinstance(value, list):
            writer.add_array(full, value)
        else:
            writer.add_uint32(full, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    return path


def cells(window: int | None) -> int:
    """Tokens a layer keeps: the whole context, or the window and a batch."""
    return TOKENS if window is None else -(-min(TOKENS, window + BATCH) // GRAIN) * GRAIN


@pytest.mark.parametrize("row", LOGGED, ids=lambda row: f"{row[0]}-{row[1][0]}")
def test_the_shape_comes_to_what_the_engine_logs(
    tmp_path: Path, row: tuple[str, tuple[Any, ...], dict[str, Any], float, float]
) -> None:
    architecture, shape, keys, cache, state = row
    with write(tmp_path / "x.gguf", architecture, shape, keys).open("rb") as file:
        ours = describe(read_header(file, "x", parse_header), where="x")
    elements = sum(
        each.layers * each.kv_heads * (each.key_length + each.value_length) * cells(each.window)
        for each in ours.attention
    )
    states = sum(each.layers * (each.conv + each.state) for each in ours.recurrent)
    assert elements * 2 / 2**20 == pytest.approx(cache, abs=0.01)
    assert states * 4 / 2**20 == pytest.approx(state, abs=0.01)
