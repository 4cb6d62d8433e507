"""What a model family's config.json leaves unsaid: its class's defaults, which layers look back how far.

Data only. Keys are family names as `config.family` makes them: `gemma3_text` → `gemma3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_GATED_DELTA = {
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "head_dim": 256,
}
_MAMBA2 = {"mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2}
_MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}

DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "afmoe": {"head_dim": 128, "num_key_value_heads": 16, "sliding_window": 1024},
        "bamba": {**_MAMBA2, "mamba_n_heads": 128, "num_key_value_heads": 8},
        "cohere2": {"sliding_window": 4096},
        "deepseekv2": _MLA,
        "deepseekv3": _MLA,
        "exaone4": {"sliding_window": 4096},
        "falconh1": {**_MAMBA2, "mamba_n_heads": 128, "mamba_d_ssm": 1024, "num_key_value_heads": 8},
        "gemma": {"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256},
        "gemma2": {
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
        },
        "gemma3": {
            "num_hidden_layers": 26,
            "hidden_size": 2304,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
            "max_position_embeddings": 131072,
            "vocab_size": 262208,
        },
        "gemma3n": {
            "num_hidden_layers": 35,
            "hidden_size": 2048,
            "intermediate_size": 16384,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "num_kv_shared_layers": 15,
            "sliding_window": 512,
            "max_position_embeddings": 32768,
            "vocab_size": 262400,
        },
        "gemma4": {
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "global_head_dim": 512,
            "sliding_window": 512,
            "max_position_embeddings": 131072,
            "vocab_size": 262144,
        },
        "glm": {"num_key_value_heads": 2, "head_dim": 128},
        "glm4": {"num_key_value_heads": 2, "head_dim": 128},
        "glmmoedsa": {**_MLA, "qk_nope_head_dim": 192, "v_head_dim": 256, "index_head_dim": 128},
        "gptoss": {
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "sliding_window": 128,
        },
        "granitemoehybrid": _MAMBA2,
        "internlm3": {"num_key_value_heads": 2, "head_dim": 128},
        "jamba": {
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "num_key_value_heads": 8,
        },
        "lfm2": {"conv_L_cache": 3, "num_key_value_heads": 8},
        "llama4": {
            "num_hidden_layers": 48,
            "hidden_size": 5120,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attention_chunk_size": 8192,
        },
        "mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
        "mamba2": {"state_size": 128, "conv_kernel": 4, "expand": 2, "n_groups": 8},
        "kimilinear": _MLA,
        "minicpm3": {"kv_lora_rank": 256, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64},
        "ministral": {"num_key_value_heads": 8},
        "mistral": {
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
        },
        "mixtral": {"num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2},
        "nemotronh": {
            "num_key_value_heads": 8,
            "head_dim": 128,
            "ssm_state_size": 128,
            "n_groups": 8,
            "conv_kernel": 4,
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
        },
        "olmo3": {"sliding_window": 4096},
        "qwen3": {"head_dim": 128},
        "qwen3moe": {"num_key_value_heads": 4},
        "qwen35": {**_GATED_DELTA, "num_attention_heads": 16, "num_key_value_heads": 4},
        "qwen35moe": {**_GATED_DELTA, "num_attention_heads": 16, "num_key_value_heads": 2},
        "qwen3next": {**_GATED_DELTA, "num_attention_heads": 16, "num_key_value_heads": 2},
        "smollm3": {"num_key_value_heads": 4},
        "starcoder2": {"num_key_value_heads": 2},
    }
)
"""What stands in for keys that a configuration leaves out because they equal its class's."""

PERIODS: Mapping[str, int] = MappingProxyType(
    {
        "afmoe": 4,
        "cohere2": 4,
        "exaone4": 4,
        "gemma2": 2,
        "gemma3": 6,
        "gemma3n": 5,
        "gemma4": 6,
        "gptoss": 2,
        "llama4": 4,
        "olmo3": 4,
    }
)
"""Of so many layers the last one attends to everything, the others within the window."""

_ENCODERS = """
albert bert camembert deberta debertav2 distilbert electra ernie eurobert gtenew jinabert jinabertv3 mpnet
modernbert neobert new nomicbert roberta xlmroberta xlmrobertaflash
"""
_PLAIN = """
apertus arcee
baichuan bitnet bloom chatglm codegen cohere dbrx deepseek dots1 ernie45 ernie45moe exaone falcon
falconmamba gemma glm4moe glm4moelite gpt2 gptbigcode gptj gptneo gptneox granite granitemoe granitemoeshared
grok1 helium hunyuanv1dense hunyuanv1moe internlm internlm2 kimik2 kimilinear llama minicpm minimaxm2 mpt
nemotron olmo olmo2 olmoe openelm opt orion persimmon phi phi3 phimoe qwen qwen2 qwen25vl qwen2moe qwen2vl
qwen3moe qwen3vl qwen3vlmoe seedoss stablelm telechat2 xverse yi
"""

ENCODERS = frozenset(_ENCODERS.split())
"""Families that read a text at once and keep no cache."""

KNOWN = frozenset(_PLAIN.split()) | frozenset(DEFAULTS) | ENCODERS
"""Families whose caches are what their keys say."""
