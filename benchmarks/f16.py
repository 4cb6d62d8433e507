"""A GGUF file's weights in F16 instead of a quantisation: what is left of a difference when that is none.

In: a quantised GGUF file. Out: the same model with every matrix in F16; what was lost stays lost.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize

from tests.lab import cache, models

WRITTEN_BY_THE_WRITER = ("GGUF.", "general.architecture", "general.file_type")


def smollm2() -> Path:
    """SmolLM2-135M-Instruct in F16, 270 MB, cached."""
    key = cache.key_of(Path(__file__).read_text(), models.SMOLLM2_SHA256)
    return cache.artifact("smollm2-f16", key, lambda path: write(models.smollm2(), path))


def write(source: Path, target: Path) -> None:
    """Write the F16 form of `source`. Vectors keep their F32, as llama.cpp's own converter has it."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith(WRITTEN_BY_THE_WRITER):
            element = field.types[1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    for tensor in reader.tensors:
        data = dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, data.astype(np.float16 if data.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
