"""A GGUF file's header, from bytes that begin the file. Pure.

In: the first bytes of a file from anywhere, so hostile until proven otherwise: every count and
length is bounded before it is believed. Out: a `Parsed` header, or `NeedMore`. Never reads tensors.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import HubError
from ..types.base import Struct
from .ggml import TYPES
from .layers import MAX_LAYERS

HEADER_LIMIT = 64 << 20
_MAGIC = b"GGUF"
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 20
_MAX_NAME = 1 << 16
_MAX_DIMENSIONS = 8
_MAX_BYTES = 1 << 60
# Longer strings (templates, licences) say nothing that sizing asks for.
_KEPT_STRING = 1024
# Longer lists (vocabularies, merges) are counted, not kept; one value a layer is kept.
_KEPT_LIST = MAX_LAYERS

_STRING, _ARRAY, _BOOL = 8, 9, 7
# Looked up by row, never multiplied with.
_TABLE = re.compile(r"^(token_embd|per_layer_token_embd|token_types|position_embd)\b")
# Routed experts, all of a layer in one tensor or (of old) one a tensor.
_EXPERTS = re.compile(r"exps\.|\.ffn_(gate|up|down)\.\d+\.")
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<B",
    10: "<Q",
    11: "<q",
    12: "<d",
}

Scalar = str | int | float | bool


@dataclass(frozen=True)
class NeedMore:
    """The header does not end within the bytes given: at least `size` bytes of the file are needed."""

    size: int


class Parsed(Struct, frozen=True, kw_only=True):
    """A header as it stands in the file.

    `metadata`: scalars by key, arrays by their length as `key#`. `lists`: short arrays of integers.
    `tensor_bytes`: of all tensors of known types; `unknown_types`: how many others there are.
    `parameters`: elements of all tensors. `matrices`, `expert_bytes`: as in `types.shape.Tensors`, with
    `embedding`, the token table by type, left out even where it is the output matrix too: `output` says
    whether there is another.
    `data_offset`: where tensor data begins, in bytes.
    """

    metadata: dict[str, Scalar]
    lists: dict[str, tuple[int, ...]]
    chat_template: bool
    tensor_bytes: int
    unknown_types: int
    parameters: int
    matrices: dict[str, int]
    embedding: dict[str, int]
    output: bool
    expert_bytes: int
    data_offset: int


class _Short(Exception):
    """Reading went past the bytes there are."""

    def __init__(self, size: int) -> None:
        self.size = size


def parse_header(data: bytes | bytearray, where: str) -> Parsed | NeedMore:
    """The header that `data` begins with. Raises HubError (at `where`) for what is not a sound GGUF."""
    try:
        return _parse(_Reader(data, where))
    except _Short as short:
        if short.size > HEADER_LIMIT:
            raise wrong(where, f"the header claims more than {HEADER_LIMIT >> 20} MiB") from None
        return NeedMore(short.size)


class _Reader:
    """A cursor over the bytes there are. Raises _Short when asked for bytes beyond them."""

    def __init__(self, data: bytes | bytearray, where: str) -> None:
        self.data = data
        self.at = 0
        self.where = where

    def skip(self, size: int) -> int:
        """Move past `size` bytes; gives where they began."""
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise _Short(self.at)
        return start

    def scalar(self, form: str) -> int | float:
        start = self.skip(struct.calcsize(form))
        value: int | float = struct.unpack_from(form, self.data, start)[0]
        return value

    def count(self, most: int, of: str, form: str = "<Q") -> int:
        value = int(self.scalar(form))
        if value > most:
            raise wrong(self.where, f"the header claims {value} {of}")
        return value

    def string(self, most: int = HEADER_LIMIT) -> str:
        size = self.count(most, "bytes in one string")
        start = self.skip(size)
        return bytes(self.data[start : start + size]).decode("utf-8", errors="replace")


def _parse(reader: _Reader) -> Parsed:
    start = reader.skip(8)
    if bytes(reader.data[start : start + 4]) != _MAGIC:
        raise wrong(reader.where, "not a GGUF file")
    version = int.from_bytes(reader.data[4:8], "little")
    if version not in (2, 3):
        if int.from_bytes(reader.data[4:8], "big") in (2, 3):
            raise wrong(reader.where, "a big-endian GGUF file, for machines of another kind")
        raise wrong(reader.where, f"GGUF version {version}; versions 2 and 3 are understood")
    tensors = reader.count(_MAX_TENSORS, "tensors")
    keys = reader.count(_MAX_KEYS, "metadata keys")

    metadata: dict[str, Scalar] = {}
    lists: dict[str, tuple[int, ...]] = {}
    template = False
    for _ in range(keys):
        key = reader.string(_MAX_NAME)
        if key in metadata or f"{key}#" in metadata:
            raise wrong(reader.where, f"the key {key[:80]!r} stands in the header twice")
        kind = reader.count(12, "as the type of a value", "<I")
        if kind == _ARRAY:
            metadata[f"{key}#"], values = _array(reader)
            if values is not None:
                lists[key] = values
            continue
        value = _value(reader, kind)
        template = template or (key == "tokenizer.chat_template" and bool(value))
        if _worth_keeping(value):
            metadata[key] = value

    total, parameters, unknown, experts, output = 0, 0, 0, 0, False
    matrices: dict[str, int] = {}
    embedding: dict[str, int] = {}
    for _ in range(tensors):
        its = _tensor(reader)
        parameters += its.elements
        output = output or its.name == "output.weight"
        if its.size is None:
            unknown += 1
            continue
        total += its.size
        if its.dimensions < 2:
            continue
        if its.name == "token_embd.weight":
            embedding[its.type] = its.size
        elif not _TABLE.search(its.name):
            matrices[its.type] = matrices.get(its.type, 0) + its.size
            experts += its.size if _EXPERTS.search(its.name) else 0
    if max(total, parameters) > _MAX_BYTES:
        raise wrong(reader.where, "the header claims more tensor data than any machine has")
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise wrong(reader.where, f"general.alignment is {alignment!r}")
    return Parsed(
        metadata=metadata,
        lists=lists,
        chat_template=template,
        tensor_bytes=total,
        unknown_types=unknown,
        parameters=parameters,
        matrices=matrices,
        embedding=embedding,
        output=output,
        expert_bytes=experts,
        data_offset=-(-reader.at // alignment) * alignment,
    )


def _value(reader: _Reader, kind: int) -> Scalar:
    if kind == _STRING:
        return reader.string()
    value = reader.scalar(_SCALARS[kind])
    return bool(value) if kind == _BOOL else value


def _worth_keeping(value: Scalar) -> bool:
    if isinstance(value, str):
        return len(value) <= _KEPT_STRING
    return math.isfinite(value)


def _array(reader: _Reader) -> tuple[int, tuple[int, ...] | None]:
    """An array's length and, for short ones of integers, its values."""
    kind = reader.count(12, "as the type of an array", "<I")
    if kind == _ARRAY:
        raise wrong(reader.where, "an array within an array")
    if kind == _STRING:
        length = reader.count(HEADER_LIMIT // 8, "strings in one array")
        _skip_strings(reader, length)
        return length, None
    form = _SCALARS[kind]
    length = reader.count(HEADER_LIMIT, "values in one array")
    start = reader.skip(length * struct.calcsize(form))
    if length > _KEPT_LIST or form in ("<f", "<d"):
        return length, None
    return length, struct.unpack_from(f"<{length}{form[1]}", reader.data, start)


def _skip_strings(reader: _Reader, length: int) -> None:
    """Vocabularies are hundreds of thousands of strings: hop from length to length, nothing else."""
    unpack, data, at, end = struct.Struct("<Q").unpack_from, reader.data, reader.at, len(reader.data)
    for _ in range(length):
        if at + 8 > end:
            raise _Short(at + 8)
        at += 8 + unpack(data, at)[0]
    reader.at = at
    reader.skip(0)


class _Tensor(NamedTuple):
    """`dimensions`: those larger than one. `size`: in bytes, None for a type that is not in our table."""

    name: str
    dimensions: int
    elements: int
    type: str
    size: int | None


def _tensor(reader: _Reader) -> _Tensor:
    """The tensor described next."""
    name = reader.string(_MAX_NAME)
    elements, large = 1, 0
    for _ in range(reader.count(_MAX_DIMENSIONS, "dimensions of a tensor", "<I")):
        extent = reader.count(_MAX_BYTES, "elements in one dimension")
        elements *= extent
        large += extent > 1
    kind = int(reader.scalar("<I"))
    reader.scalar("<Q")
    if kind not in TYPES:
        return _Tensor(name, large, elements, "", None)
    its = TYPES[kind]
    return _Tensor(name, large, elements, its.name, elements // its.block * its.size)


def wrong(where: str, what: str) -> HubError:
    """The file at `where` is not what it should be."""
    return HubError(what, where=where, do="check the file, or take it from another repository")
