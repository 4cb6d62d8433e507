"""A safetensors file's header, from bytes that begin the file. Pure.

In: the first bytes of a file from anywhere, so hostile until proven otherwise. Out: a `Header`, or
`NeedMore`. Layout: eight bytes of little-endian length, then JSON of every tensor's dtype, shape and place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

import msgspec

from ..types.base import Struct
from ..types.shape import Tensors
from .gguf import HEADER_LIMIT, NeedMore, wrong

_MAX_TENSORS = 1 << 20
_MAX_BYTES = 1 << 60
_MAX_DIMENSIONS = 16
# One element a number; of other types several parameters may share one.
_PLAIN = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
_TABLE = re.compile(r"(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|embedding)\.weight$")
_OTHER_TABLE = re.compile(r"(?:position|token_type)_embeddings?\.|wpe\.|embed_tokens_per_layer\.")
_OUTPUT = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output|output_layer)\.weight$")
_EXPERTS = re.compile(r"\.experts\.")
# Parts of models that see or hear: no token of text goes through them.
_SENSES = re.compile(r"(?:^|\.)(?:visual|vision\w*|audio\w*|\w*projector|image_newline)\.")


class Header(Struct, frozen=True, kw_only=True):
    """A file's tensors. `size`: bytes of all. `parameters`: 0 where types pack several in one element.
    `matrices`, `experts`: as in `types.shape.Tensors`. `embedding`: the token table by type, left out of the
    matrices even where it is the output matrix too; `output`: whether there is another."""

    size: int
    parameters: int
    matrices: dict[str, int]
    embedding: dict[str, int]
    output: bool
    experts: int


class _Tensor(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def parse_header(data: bytes | bytearray, where: str) -> Header | NeedMore:
    """The header that `data` begins with. Raises HubError (at `where`) for what is not sound safetensors."""
    if len(data) < 8:
        return NeedMore(8)
    length = int.from_bytes(data[:8], "little")
    if length > HEADER_LIMIT - 8 or data[8:9] not in (b"{", b""):
        raise wrong(where, "not a safetensors file")
    if len(data) < 8 + length:
        return NeedMore(8 + length)
    try:
        raw = msgspec.json.decode(data[8 : 8 + length], type=dict[str, msgspec.Raw])
        raw.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(each, type=_Tensor) for name, each in raw.items()}
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise wrong(where, "the header is not what safetensors files have") from None
    if len(tensors) > _MAX_TENSORS:
        raise wrong(where, f"the header claims {len(tensors)} tensors")
    return _counted(tensors, where)


def _counted(tensors: dict[str, _Tensor], where: str) -> Header:
    size = parameters = experts = 0
    matrices: Counter[str] = Counter()
    embedding: Counter[str] = Counter()
    for name, its in tensors.items():
        start, end = its.data_offsets
        if len(its.shape) > _MAX_DIMENSIONS or min(its.shape, default=0) < 0 or not 0 <= start <= end:
            raise wrong(where, f"the tensor {name[:80]!r} has no sound shape and place")
        size += end - start
        parameters += math.prod(its.shape)
        if max(size, parameters) > _MAX_BYTES:
            raise wrong(where, "the header claims more tensor data than any machine has")
        if sum(extent > 1 for extent in its.shape) < 2 or _SENSES.search(name) or _OTHER_TABLE.search(name):
            continue
        kind = its.dtype[:40]
        if _TABLE.search(name):
            embedding[kind] += end - start
        else:
            matrices[kind] += end - start
            experts += (end - start) if _EXPERTS.search(name) else 0
    return Header(
        size=size,
        parameters=parameters if matrices.keys() <= _PLAIN else 0,
        matrices=dict(matrices),
        embedding=dict(embedding),
        output=any(_OUTPUT.search(name) for name in tensors),
        experts=experts,
    )


def tensors_of(headers: Iterable[Header], *, encoder: bool) -> Tensors:
    """Bytes of a model's tensors. Without an output matrix of its own, the token table is multiplied with,
    unless the model is an `encoder` and writes no text."""
    files = list(headers)
    matrices: Counter[str] = Counter()
    tied = not encoder and not any(each.output for each in files)
    for each in files:
        matrices.update(each.matrices)
        matrices.update(each.embedding if tied else {})
    return Tensors(
        size=sum(each.size for each in files),
        matrices=dict(matrices),
        experts=sum(each.experts for each in files),
    )


def parameters_of(headers: Iterable[Header]) -> int:
    """Of all files, 0 where one can't be counted."""
    counts = [each.parameters for each in headers]
    return sum(counts) if all(counts) else 0
