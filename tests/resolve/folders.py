"""A small model in Hugging Face's own form, its weights written by the safetensors library."""

from __future__ import annotations

import json
from typing import Any

import numpy
import safetensors.numpy

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 1,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "vocab_size": 10,
    "max_position_embeddings": 64,
}
SHAPES = {
    "model.embed_tokens.weight": (10, 8),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.mlp.experts.0.up_proj.weight": (16, 8),
    "model.layers.0.input_layernorm.weight": (8,),
    "model.visual.blocks.0.weight": (5, 5),
}
MATRICES = (8 * 8 + 16 * 8) * 2
TABLE = 10 * 8 * 2
PARAMETERS = sum(int(numpy.prod(shape)) for shape in SHAPES.values())


def weights(shapes: dict[str, tuple[int, ...]] = SHAPES) -> bytes:
    """Zeros in f16."""
    return safetensors.numpy.save({name: numpy.zeros(shape, numpy.float16) for name, shape in shapes.items()})


def folder(**more: bytes) -> dict[str, bytes]:
    """Files by name; `more` are others, with `_` for the dot of their ending."""
    template = json.dumps({"chat_template": "{{ messages }}", "time_step_limit": [0.0, float("inf")]})
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors": weights(),
        "tokenizer_config.json": template.encode(),
        **{".".join(name.rsplit("_", 1)): data for name, data in more.items()},
    }
