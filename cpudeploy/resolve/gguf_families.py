"""What a GGUF's architecture implies beyond its keys: which layers look back only so far, which keep a state.

Data only, as llama.cpp (build 11434) reads such files.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Window(NamedTuple):
    """How an architecture's layers share out a sliding window where its header does not list them.

    period: of so many layers one attends to everything, the last or (`first`) the first; 0: none does;
    None: only a list tells. length: in tokens, where the header has none. fixed: the header's is not used.
    """

    period: int | None
    first: bool = False
    length: int = 0
    fixed: bool = False


WINDOWS: Mapping[str, Window] = MappingProxyType(
    {
        "afmoe": Window(4),
        "cohere2": Window(4),
        "cohere2moe": Window(4, first=True),
        "dots3note": Window(None),
        "exaone-moe": Window(4, length=128),
        "exaone4": Window(4, length=4096),
        "gemma2": Window(2, length=4096),
        "gemma3": Window(6),
        "gemma3n": Window(5),
        "gemma4": Window(None),
        "gpt-oss": Window(2),
        "granite_swa": Window(None),
        "laguna": Window(4, first=True),
        "lfm2": Window(0),
        "llama4": Window(4, length=8192, fixed=True),
        "maple": Window(None),
        "mellum": Window(4),
        "mimo2": Window(None),
        "muse-glimmer": Window(4),
        "olmo2": Window(4),
        "plamo3": Window(8),
        "smallthinker": Window(4, first=True, length=4096, fixed=True),
        "spark2_5": Window(None),
        "step35": Window(None),
    }
)

INTERVALS: Mapping[str, int] = MappingProxyType(
    {"minimax-01": 8, "qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4}
)
"""Of so many layers the last one attends, the others keep a state, unless the header says otherwise."""

STATES = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Every layer keeps a state, none attends."""

BOTH = frozenset({"falcon-h1"})
"""Every layer attends and keeps a state."""

ZERO_HEADS = frozenset(
    {
        "bailingmoe3",
        "glm5-next",
        "granitehybrid",
        "jamba",
        "kimi-k3",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
    }
)
"""A layer without KV heads keeps a state."""

OWN_CACHE: Mapping[str, int] = MappingProxyType({"gemma3n": 20})
"""So many layers from the first keep a cache, whatever the header says; the others look into theirs."""

SHARING = frozenset({"gemma4"})
"""Of these the header's `shared_kv_layers` last ones keep none."""

_UNCACHED = """
bert clef dream eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llada llada-moe modern-bert neo-bert
nomic-bert nomic-bert-moe rnd1 t5encoder wavtokenizer-dec
"""
_PLAIN = """
apertus arcee arctic baichuan bailingmoe bailingmoe2 bitnet bloom chameleon chatglm codeshell cogvlm
command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32 dots1 ernie4_5 ernie4_5-moe exaone falcon
gemma glm-dsa glm4 glm4moe gpt2 gptj gptneox granite granitemoe graniteswitch grok grovemoe hrm_text
hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 internlm2 jais jais2 llama llama-embed maincoder minicpm minicpm3
minimax-m2 mistral3 mistral4 mpt nanbeige nemotron olmo olmoe openelm orion paddleocr pangu-embedded phi2
phi3 phimoe plamo plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe refact seed_oss smollm3
stablelm starcoder starcoder2 t5 talkie xverse
"""

UNCACHED = frozenset(_UNCACHED.split())
"""Architectures that read a text at once: no cache, and no output matrix."""

KNOWN = (
    (frozenset(_PLAIN.split()) | UNCACHED | frozenset(WINDOWS) | frozenset(INTERVALS))
    | STATES
    | BOTH
    | ZERO_HEADS
)
"""Architectures whose caches are what this table and their keys say."""
