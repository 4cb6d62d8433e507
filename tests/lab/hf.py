"""Models in Hugging Face's form with random weights: what vLLM serves, without a download.

In: a `Shape`, a Qwen3 of any size. Out: a folder with config.json, tokenizer, chat template and
model.safetensors in bfloat16, the same bytes every time. It needs numpy alone: a safetensors file is a length,
a JSON header and the data. The data is one random tile written over and over, so that gigabytes take seconds.
The tokenizer knows every byte; what the model says is noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TILE = 4 << 20  # elements


@dataclass(frozen=True)
class Shape:
    """A Qwen3 of this size. vocabulary: at least the 259 of the tokenizer's bytes and special tokens."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int = 512
    context: int = 4096
    tied: bool = True

    @property
    def kv_bytes(self) -> int:
        """Bytes of cache that one token takes, in bfloat16."""
        return self.layers * 2 * self.kv_heads * self.head * 2


TINY = Shape(layers=2, hidden=64, inner=128, heads=2, kv_heads=1, head=32)


def write(shape: Shape, folder: Path) -> None:
    """Write the model into `folder`, which must not exist."""
    folder.mkdir(parents=True)

    def put(name: str, data: Any) -> None:
        (folder / name).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")

    put("config.json", _config(shape))
    put("generation_config.json", {"eos_token_id": 2, "pad_token_id": 0, "do_sample": True})
    put("tokenizer.json", _tokenizer(shape.vocabulary))
    put(
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": SPECIAL[2],
            "pad_token": SPECIAL[0],
            "model_max_length": shape.context,
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    )
    _weights(shape, folder / "model.safetensors")


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }


def _tokenizer(vocabulary: int) -> dict[str, Any]:
    """Byte-level BPE without a merge: a token a byte, and names for the rest of the vocabulary."""
    words = [*SPECIAL, *_byte_alphabet()]
    words += [f"<{number}>" for number in range(len(words), vocabulary)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": at, "content": word, **flags} for at, word in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: at for at, word in enumerate(words)},
            "merges": [],
        },
    }


def _byte_alphabet() -> list[str]:
    """The character that stands for each byte in byte-level BPE: itself, or one past 255 where it can't be seen."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    unseen = iter(range(0x100, 0x200))
    return [chr(byte if byte in seen else next(unseen)) for byte in range(256)]


def _tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    wide, narrow = shape.heads * shape.head, shape.kv_heads * shape.head
    yield "model.embed_tokens.weight", (shape.vocabulary, shape.hidden)
    if not shape.tied:
        yield "lm_head.weight", (shape.vocabulary, shape.hidden)
    for layer in range(shape.layers):
        block = f"model.layers.{layer}"
        yield f"{block}.input_layernorm.weight", (shape.hidden,)
        yield f"{block}.post_attention_layernorm.weight", (shape.hidden,)
        yield f"{block}.self_attn.q_proj.weight", (wide, shape.hidden)
        yield f"{block}.self_attn.k_proj.weight", (narrow, shape.hidden)
        yield f"{block}.self_attn.v_proj.weight", (narrow, shape.hidden)
        yield f"{block}.self_attn.o_proj.weight", (shape.hidden, wide)
        yield f"{block}.self_attn.q_norm.weight", (shape.head,)
        yield f"{block}.self_attn.k_norm.weight", (shape.head,)
        yield f"{block}.mlp.gate_proj.weight", (shape.inner, shape.hidden)
        yield f"{block}.mlp.up_proj.weight", (shape.inner, shape.hidden)
        yield f"{block}.mlp.down_proj.weight", (shape.hidden, shape.inner)
    yield "model.norm.weight", (shape.hidden,)


def _weights(shape: Shape, path: Path) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    sizes, end = [], 0
    for name, dims in _tensors(shape):
        size = 2 * int(np.prod(dims))
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [end, end + size]}
        sizes.append((size, len(dims) == 1))
        end += size
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % 8)
    noise = (np.random.default_rng(0).standard_normal(_TILE) * 0.02).astype(np.float32)
    tile = memoryview((noise.view(np.uint32) >> 16).astype("<u2").tobytes())  # bfloat16: the upper half
    one = np.array([0x3F80], dtype="<u2").tobytes()
    with path.open("wb") as file:
        file.write(len(told).to_bytes(8, "little") + told)
        for size, norm in sizes:
            if norm:
                file.write(one * (size // 2))
                continue
            for start in range(0, size, len(tile)):
                file.write(tile[: min(len(tile), size - start)])
