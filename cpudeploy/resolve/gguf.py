"""A GGUF file's header, from bytes that begin the file. Pure.

In: the first bytes of a file from anywhere, so hostile until proven otherwise: every count and
length is bounded before it is believed. Out: a `Parsed` header, or `NeedMore`. Never reads tensors.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from dataclasses import dataclass

from ..errors import HubError
from ..types.base import Struct
from ..types.shape import AttentionLayers, ModelShape, Tensors
from .ggml import TYPES

HEADER_LIMIT = 64 << 20
_MAGIC = b"GGUF"
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 20
_MAX_NAME = 1 << 16
_MAX_DIMENSIONS = 8
_MAX_BYTES = 1 << 60
_MAX_LAYERS = 10_000
_MAX_COUNT = 1 << 40
# Longer strings (templates, licences) say nothing that sizing asks for.
_KEPT_STRING = 1024
# Longer lists (vocabularies, merges) are counted, not kept; one value a layer is kept.
_KEPT_LIST = _MAX_LAYERS

_STRING, _ARRAY, _BOOL = 8, 9, 7
# Looked up by row, never multiplied with.
_TABLE = re.compile(r"^(token_embd|per_layer_token_embd|token_types|position_embd)\b")
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
    `matrices`, `expert_bytes`: as in `types.shape.Tensors`.
    `data_offset`: where tensor data begins, in bytes.
    """

    metadata: dict[str, Scalar]
    lists: dict[str, tuple[int, ...]]
    chat_template: bool
    tensor_bytes: int
    unknown_types: int
    matrices: dict[str, int]
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
            raise _wrong(where, f"the header claims more than {HEADER_LIMIT >> 20} MiB") from None
        return NeedMore(short.size)


def describe(parsed: Parsed, *, where: str) -> ModelShape:
    """What the header says of the model. Raises HubError when it is not the header of a language model."""
    architecture = parsed.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise _wrong(where, "the header names no architecture")

    def number(key: str, default: int | None = None, most: int = _MAX_COUNT) -> int:
        value = parsed.metadata.get(f"{architecture}.{key}", default)
        if value is None:
            what = f"the header has no {architecture}.{key}: not a language model by itself"
            raise HubError(what, where=where, do="name the model's own file by `quant` or `files`")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise _wrong(where, f"{architecture}.{key} is {value!r}")
        return value

    def by_layer(key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        values = parsed.lists.get(f"{architecture}.{key}")
        if values is None:
            scalar = f"{architecture}.{key}" in parsed.metadata
            return (number(key),) * layers if scalar else default
        if len(values) < layers or not all(0 <= value <= _MAX_COUNT for value in values):
            raise _wrong(where, f"{architecture}.{key} does not fit {layers} layers")
        return values[:layers]

    layers = number("block_count", most=_MAX_LAYERS)
    embedding = number("embedding_length", 0)
    heads = by_layer("attention.head_count", (0,) * layers)
    width = embedding // max(heads, default=0) if any(heads) else 0
    vocabulary = parsed.metadata.get("tokenizer.ggml.tokens#")
    key_length = number("attention.key_length", width)
    value_length = number("attention.value_length", width)
    kv_heads = by_layer("attention.head_count_kv", heads)
    return ModelShape(
        architecture=architecture,
        layers=layers,
        context_length=number("context_length", 0),
        embedding=embedding,
        heads=max(heads, default=0),
        vocabulary=vocabulary if isinstance(vocabulary, int) else number("vocab_size", 0),
        attention=tuple(
            AttentionLayers(layers=count, kv_heads=kv, key_length=key_length, value_length=value_length)
            for kv, count in Counter(kv for kv in kv_heads if kv).items()
        ),
        experts=number("expert_count", 0),
        experts_used=number("expert_used_count", 0),
        chat_template=parsed.chat_template,
    )


def tensors_of(parsed: Parsed, *, size: int) -> Tensors:
    """Bytes of the tensors in a file of `size` bytes, which stands in for tensors of types unknown here."""
    known = max(size - parsed.data_offset, 0) if parsed.unknown_types else parsed.tensor_bytes
    return Tensors(size=known, matrices=parsed.matrices, experts=parsed.expert_bytes)


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
            raise _wrong(self.where, f"the header claims {value} {of}")
        return value

    def string(self, most: int = HEADER_LIMIT) -> str:
        size = self.count(most, "bytes in one string")
        start = self.skip(size)
        return bytes(self.data[start : start + size]).decode("utf-8", errors="replace")


def _parse(reader: _Reader) -> Parsed:
    start = reader.skip(8)
    if bytes(reader.data[start : start + 4]) != _MAGIC:
        raise _wrong(reader.where, "not a GGUF file")
    version = int.from_bytes(reader.data[4:8], "little")
    if version not in (2, 3):
        if int.from_bytes(reader.data[4:8], "big") in (2, 3):
            raise _wrong(reader.where, "a big-endian GGUF file, for machines of another kind")
        raise _wrong(reader.where, f"GGUF version {version}; versions 2 and 3 are understood")
    tensors = reader.count(_MAX_TENSORS, "tensors")
    keys = reader.count(_MAX_KEYS, "metadata keys")

    metadata: dict[str, Scalar] = {}
    lists: dict[str, tuple[int, ...]] = {}
    template = False
    for _ in range(keys):
        key = reader.string(_MAX_NAME)
        if key in metadata or f"{key}#" in metadata:
            raise _wrong(reader.where, f"the key {key[:80]!r} stands in the header twice")
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

    total, unknown, experts = 0, 0, 0
    matrices: dict[str, int] = {}
    for _ in range(tensors):
        name, dimensions, stored, size = _tensor(reader)
        if size is None:
            unknown += 1
            continue
        total += size
        if dimensions > 1 and not _TABLE.search(name):
            matrices[stored] = matrices.get(stored, 0) + size
        if "_exps" in name:
            experts += size
    if total > _MAX_BYTES:
        raise _wrong(reader.where, "the header claims more tensor data than any machine has")
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise _wrong(reader.where, f"general.alignment is {alignment!r}")
    return Parsed(
        metadata=metadata,
        lists=lists,
        chat_template=template,
        tensor_bytes=total,
        unknown_types=unknown,
        matrices=matrices,
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
        raise _wrong(reader.where, "an array within an array")
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


def _tensor(reader: _Reader) -> tuple[str, int, str, int | None]:
    """Name, dimensions larger than one, type and bytes (None for a type that is not in our table) of the
    tensor described next."""
    name = reader.string(_MAX_NAME)
    elements, large = 1, 0
    for _ in range(reader.count(_MAX_DIMENSIONS, "dimensions of a tensor", "<I")):
        extent = reader.count(_MAX_BYTES, "elements in one dimension")
        elements *= extent
        large += extent > 1
    kind = int(reader.scalar("<I"))
    reader.scalar("<Q")
    if kind not in TYPES:
        return name, large, "", None
    its = TYPES[kind]
    return name, large, its.name, elements // its.block * its.size


def _wrong(where: str, what: str) -> HubError:
    return HubError(what, where=where, do="check the file, or take it from another repository")
