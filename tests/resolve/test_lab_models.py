"""Real models' files: every figure against the gguf library's own reading of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from cpudeploy.resolve.local import read_local
from cpudeploy.types.shape import AttentionLayers
from tests.lab import models


@pytest.mark.parametrize(
    "model",
    [models.tiny, pytest.param(models.smollm2, marks=pytest.mark.lab)],
    ids=["tiny", "smollm2"],
)
def test_a_models_file_is_read_as_the_library_reads_it(model: Callable[[], Path]) -> None:
    path = model()
    theirs = gguf.GGUFReader(path)
    told = read_local(path, "gguf").told
    assert told.shape is not None
    assert told.tensors is not None
    assert told.shape.parameters == sum(int(each.n_elements) for each in theirs.tensors)
    assert told.tensors.size == sum(int(each.n_bytes) for each in theirs.tensors)

    def value(key: str) -> int:
        return int(theirs.fields[f"llama.{key}"].contents())

    width = value("embedding_length") // value("attention.head_count")
    assert told.shape.attention == (
        AttentionLayers(
            layers=value("block_count"),
            kv_heads=value("attention.head_count_kv"),
            key_length=width,
            value_length=width,
        ),
    )
    matrices: Counter[str] = Counter()
    output = any(each.name == "output.weight" for each in theirs.tensors)
    for each in theirs.tensors:
        if len(each.shape) > 1 and (each.name != "token_embd.weight" or not output):
            matrices[each.tensor_type.name] += int(each.n_bytes)
    assert told.tensors.matrices == matrices
