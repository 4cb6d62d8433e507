"""The shipped records say of each model what its published configuration says, as `resolve` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.cli.records import read_facts, read_records
from cpudeploy.resolve.config import shape_of
from cpudeploy.resolve.trees import tree_id
from cpudeploy.types.base import Unknown
from cpudeploy.types.deployment import HuggingFace
from cpudeploy.types.resolved import ResolvedWeights, WeightFile

FACTS = Path(__file__).parents[2] / "inventories" / "facts"
FULL = {"openbmb/MiniCPM5-1B": "openbmb", "Qwen/Qwen3-0.6B": "Qwen", "Qwen/Qwen3.5-0.8B": "ggml-org"}
"""Models that are there in their publisher's own precision as well → who published the GGUF."""
CONFIGS: dict[str, dict[str, Any]] = {
    "openbmb/MiniCPM5-1B-GGUF": {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 24,
        "hidden_size": 1536,
        "intermediate_size": 4608,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "vocab_size": 130560,
        "max_position_embeddings": 131072,
    },
    "Qwen/Qwen3-0.6B-GGUF": {
        "model_type": "qwen3",
        "num_hidden_layers": 28,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
    },
    "ggml-org/Qwen3.5-0.8B-GGUF": {
        "model_type": "qwen3_5",
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "vocab_size": 248320,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    },
    "unsloth/gemma-4-E2B-it-GGUF": {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "num_hidden_layers": 35,
        "hidden_size": 1536,
        "intermediate_size": 6144,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "vocab_size": 262144,
        "max_position_embeddings": 131072,
        "sliding_window": 512,
        "num_kv_shared_layers": 20,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    },
}

CONFIGS |= {repo: CONFIGS[f"{owner}/{repo.partition('/')[2]}-GGUF"] for repo, owner in FULL.items()}


def told() -> dict[str, ResolvedWeights]:
    records = read_records(FACTS).weights
    return {each.source.repo: each.told for each in records if isinstance(each.source, HuggingFace)}


@pytest.mark.parametrize("repo", CONFIGS)
def test_a_shape_is_what_the_reader_makes_of_the_configuration(repo: str) -> None:
    shape = told()[repo].shape
    assert shape is not None
    read = shape_of(CONFIGS[repo])
    # A configuration does not count its parameters; the model's card does.
    assert msgspec.structs.replace(shape, parameters=read.parameters) == read


def test_every_record_is_of_a_model_with_a_published_configuration() -> None:
    assert told().keys() == CONFIGS.keys()


@pytest.mark.parametrize("repo", CONFIGS)
def test_a_file_is_known_whole_or_said_not_to_be(repo: str) -> None:
    weights = told()[repo]
    (file,) = weights.files
    if isinstance(file, WeightFile):
        assert weights.tree == tree_id(repo, [(file.name, file.sha256)])
        assert weights.revision in file.urls[0]
    else:
        assert weights.tree == ""
        assert isinstance(file.sha256, Unknown)


@pytest.mark.parametrize("path", sorted(FACTS.glob("*-1.json")), ids=lambda path: path.stem)
def test_facts_of_a_machine_nobody_probed_say_so(path: Path) -> None:
    facts = read_facts(FACTS, path.stem)
    assert facts is not None
    assert facts.engine.state == facts.root == "unknown"
    assert any("nobody probed this machine" in note for note in facts.notes)
