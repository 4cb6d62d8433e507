"""What logs of llama.cpp, published over three years, say of real models: the estimate's test data. MiB.

`CONFIGS`: the values of a model's config.json that its caches depend on. `LOGS`: what was read in a log.
Numbers only; a row that says why it is set aside is not compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Log(NamedTuple):
    """One log. context: tokens of all slots; unified, whole_windows, flash: as in `Serving`.

    kv, state, compute: MiB, None where the log was not seen whole. aside: why it is not ours to reproduce.
    """

    model: str
    context: int
    kv: float | None
    slots: int = 1
    kv_type: str = "f16"
    ubatch: int = 512
    unified: bool = False
    state: float | None = None
    compute: float | None = None
    whole_windows: bool = False
    flash: bool = True
    aside: str = ""


def _dense(
    model_type: str, layers: int, width: int, inner: int, heads: int, kv: int, words: int, **more: Any
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": words,
        **more,
    }


def _linear(keys: int, values: int) -> dict[str, Any]:
    """Three linear layers to one that attends."""
    return {
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_num_key_heads": keys,
        "linear_num_value_heads": values,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }


def _kinds(pattern: str) -> list[str]:
    return [{"s": "sliding_attention", "f": "full_attention"}[letter] for letter in pattern]


_MOE = {"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8}

CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen3-0.6B": _dense("qwen3", 28, 1024, 3072, 16, 8, 151936, head_dim=128),
    "Qwen3-4B": _dense("qwen3", 36, 2560, 9728, 32, 8, 151936, head_dim=128),
    "Qwen3-30B-A3B": _dense("qwen3_moe", 48, 2048, 6144, 32, 4, 151936, **_MOE),
    "Qwen3-235B-A22B": _dense("qwen3_moe", 94, 4096, 12288, 64, 4, 151936, **_MOE),
    "Qwen3.5-0.8B": _dense("qwen3_5", 24, 1024, 3584, 8, 2, 248320, **_linear(16, 16)),
    "Qwen3.5-2B": _dense("qwen3_5", 24, 2048, 6144, 8, 2, 248320, **_linear(16, 16)),
    "Qwen3.5-4B": _dense("qwen3_5", 32, 2560, 9216, 16, 4, 248320, **_linear(16, 32)),
    "Qwen3.5-27B": _dense("qwen3_5", 64, 5120, 17408, 24, 4, 248320, **_linear(16, 48)),
    "gemma-3-270m": _dense(
        "gemma3_text", 18, 640, 2048, 4, 1, 262144, head_dim=256, sliding_window=512, sliding_window_pattern=6
    ),
    "gemma-3-1b": _dense(
        "gemma3_text",
        26,
        1152,
        6912,
        4,
        1,
        262144,
        head_dim=256,
        sliding_window=512,
        sliding_window_pattern=6,
    ),
    "gemma-4-E2B": _dense(
        "gemma4_text",
        35,
        1536,
        6144,
        8,
        1,
        262144,
        head_dim=256,
        global_head_dim=512,
        sliding_window=512,
        num_kv_shared_layers=20,
        layer_types=_kinds("ssssf" * 7),
    ),
    "gemma-4-26B-A4B": _dense(
        "gemma4_text",
        30,
        2816,
        2112,
        16,
        8,
        262144,
        head_dim=256,
        global_head_dim=512,
        num_global_key_value_heads=2,
        attention_k_eq_v=True,
        sliding_window=1024,
        num_experts=128,
        top_k_experts=8,
        layer_types=_kinds("sssssf" * 5),
    ),
    "gpt-oss-20b": _dense(
        "gpt_oss",
        24,
        2880,
        2880,
        64,
        8,
        201088,
        head_dim=64,
        sliding_window=128,
        num_local_experts=32,
        num_experts_per_tok=4,
        layer_types=_kinds("sf" * 12),
    ),
    "Llama-3.1-8B": _dense("llama", 32, 4096, 14336, 32, 8, 128256),
    "Llama-3.1-70B": _dense("llama", 80, 8192, 28672, 64, 8, 128256),
    "Llama-3.2-1B": _dense("llama", 16, 2048, 8192, 32, 8, 128256, head_dim=64),
    "Llama-2-7b": _dense("llama", 32, 4096, 11008, 32, 32, 32000),
    "TinyLlama-1.1B": _dense("llama", 22, 2048, 5632, 32, 4, 32000),
    "Qwen2.5-7B": _dense("qwen2", 28, 3584, 18944, 28, 4, 152064, head_dim=128),
    "DeepSeek-V2-Lite": _dense(
        "deepseek_v2",
        27,
        2048,
        10944,
        16,
        16,
        102400,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        n_routed_experts=64,
        num_experts_per_tok=6,
    ),
}

_DRAFTED = "the state is kept once more for every drafted token, which the playbook never asks for"

LOGS = (
    Log("Qwen3-0.6B", 4096, 448.0),
    Log("Qwen3-0.6B", 256, 28.0),
    Log("Qwen3-4B", 4096, 576.0, compute=301.75),
    Log("Qwen3-4B", 8192, 1152.0),
    Log("Qwen3-30B-A3B", 32768, 3072.0, slots=4, unified=True),
    Log("Qwen3-30B-A3B", 65536, 6144.0, slots=4, unified=True),
    Log("Qwen3-30B-A3B", 16384, 1536.0),
    Log("Qwen3-235B-A22B", 16384, 1598.0, kv_type="q8_0"),
    Log("Qwen3.5-0.8B", 4096, 48.0, state=19.27),
    Log("Qwen3.5-0.8B", 65536, 768.0, state=19.27),
    Log("Qwen3.5-0.8B", 4096, 25.5, kv_type="q8_0", state=19.27),
    Log("Qwen3.5-0.8B", 65536, 408.0, kv_type="q8_0", state=19.27),
    Log("Qwen3.5-0.8B", 32768, 108.0, kv_type="q4_0", state=19.27),
    Log("Qwen3.5-2B", 262144, 3072.0, slots=4, unified=True, ubatch=1024, state=77.06, compute=1584.04),
    Log("Qwen3.5-4B", 4096, None, state=50.25),
    Log("Qwen3.5-27B", 8192, 512.0, state=149.62),
    Log("Qwen3.5-27B", 262144, 16384.0, slots=4, unified=True, state=598.5),
    Log("Qwen3.5-27B", 262144, 16384.0, state=1047.38, aside=_DRAFTED),
    Log("Qwen3.5-27B", 8192, 512.0, state=748.125, aside=_DRAFTED),
    Log("gemma-3-270m", 8192, 39.0),
    Log("gemma-3-270m", 8192, 54.0, slots=2),
    Log("gemma-3-270m", 8192, 84.0, slots=4),
    Log("gemma-3-270m", 1024, 27.0, slots=3),
    Log("gemma-3-270m", 1024, 18.0, slots=4),
    Log("gemma-3-1b", 4096, 104.0, whole_windows=True),
    Log("gemma-4-E2B", 4096, 72.0, compute=518.0, whole_windows=True),
    Log("gemma-4-26B-A4B", 262144, 2879.38, kv_type="q8_0"),
    Log("gpt-oss-20b", 131072, 3090.0),
    Log("gpt-oss-20b", 8192, 105.19, kv_type="q8_0", ubatch=128),
    Log("gpt-oss-20b", 131072, 3096.0, slots=4, unified=True),
    Log("Llama-3.1-8B", 16384, 2048.0, ubatch=1024),
    Log("Llama-3.1-8B", 4096, 512.0, compute=296.01, flash=False),
    Log("Llama-3.1-70B", 4096, 1280.0, compute=588.01, flash=False),
    Log("Llama-3.2-1B", 1024, 32.0, compute=254.5),
    Log("Llama-2-7b", 2048, 1024.0, compute=160.0, flash=False),
    Log("TinyLlama-1.1B", 256, 5.5),
    Log("TinyLlama-1.1B", 2048, 44.0, compute=66.5),
    Log("Qwen2.5-7B", 32768, 1792.0),
    Log("DeepSeek-V2-Lite", 8192, 2160.0),
    Log("DeepSeek-V2-Lite", 2048, 540.0, compute=236.25),
)
