"""Small GGUF files written by the gguf library itself, with real headers and little data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy

Q4_0 = gguf.GGMLQuantizationType.Q4_0


def write_gguf(
    path: Path,
    *,
    vocabulary: int = 300,
    architecture: str = "llama",
    more: Callable[[Any], None] = lambda _: None,
    endianess: gguf.GGUFEndian = gguf.GGUFEndian.LITTLE,
) -> Path:
    """A two-layer model: one F32, one F16 and one Q4_0 tensor. `more` adds to the header."""
    writer = gguf.GGUFWriter(path, architecture, endianess=endianess)
    writer.add_block_count(2)
    writer.add_context_length(4096)
    writer.add_embedding_length(64)
    writer.add_head_count(8)
    more(writer)
    if vocabulary:
        writer.add_token_list([f"token-{number}" for number in range(vocabulary)])
        writer.add_token_scores([0.5] * vocabulary)
    writer.add_tensor("a", numpy.zeros((4, 64), dtype=numpy.float32))
    writer.add_tensor("b", numpy.zeros((8, 64), dtype=numpy.float16))
    writer.add_tensor("c", gguf.quantize(numpy.zeros((2, 64), dtype=numpy.float32), Q4_0), raw_dtype=Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


TENSOR_BYTES = 4 * 64 * 4 + 8 * 64 * 2 + 2 * 2 * 18
