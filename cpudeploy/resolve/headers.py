"""What a model's files say of it: one reading of headers, wherever the files lie.

In: the files' names and a `Reader` for them. Out: shape and tensors, or why there are none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..errors import HubError
from ..types.shape import ModelShape, Tensors
from . import safetensors
from .config import is_encoder, shape_of
from .gguf import Parsed
from .gguf_shape import describe, tensors_of
from .selection import same_model

_AT_ONCE = 8
_CONFIG = "config.json"
_TOKENIZER = "tokenizer_config.json"
_TEMPLATES = ("chat_template.jinja", "chat_template.json")

T = TypeVar("T")


class Reader(Protocol):
    """Headers and small files of one model, by name. Each raises HubError where it can't be read."""

    def gguf(self, name: str) -> Parsed: ...

    def safetensors(self, name: str) -> safetensors.Header: ...

    def text(self, name: str) -> str: ...


@dataclass(frozen=True)
class Told:
    """What the files say. `notes`: why shape or tensors are missing."""

    shape: ModelShape | None = None
    tensors: Tensors | None = None
    notes: tuple[str, ...] = ()


def told_by(sizes: Mapping[str, int], entry: str, reader: Reader, where: str) -> Told:
    """What the files of a model say, given their bytes by name; `entry` is empty for a folder as a whole.

    Raises HubError for a damaged file and for one that can't be read.
    """
    return _of_gguf(sizes, entry, reader, where) if entry else _of_folder(sizes, reader, where)


def _of_gguf(sizes: Mapping[str, int], entry: str, reader: Reader, where: str) -> Told:
    """The entry's header; the tensors of a model in shards are those of all its shards."""
    shards = [name for name in sizes if same_model(name, entry)]
    shards.sort(key=lambda name: (name != entry, name))
    headers = _all(reader.gguf, shards)
    shape = describe(
        headers[0], where=f"{where} {entry}", parameters=sum(header.parameters for header in headers)
    )
    return Told(
        shape, tensors_of([(header, sizes[name]) for name, header in zip(shards, headers, strict=True)])
    )


def _of_folder(sizes: Mapping[str, int], reader: Reader, where: str) -> Told:
    """config.json and the headers of the weights beside it."""
    weights = [name for name in sizes if name.endswith(".safetensors") and "/" not in name]
    if _CONFIG not in sizes or not weights:
        missing = _CONFIG if _CONFIG not in sizes else "any .safetensors file"
        return Told(notes=(f"it lacks {missing} at its top, so what the model needs is not known",))
    headers = _all(reader.safetensors, weights)
    config = _json(reader.text(_CONFIG), f"{where} {_CONFIG}")
    tensors = safetensors.tensors_of(headers, encoder=is_encoder(config))
    try:
        shape = shape_of(
            config,
            # Whatever reads safetensors keeps latent attention compressed.
            latent=True,
            parameters=safetensors.parameters_of(headers),
            chat_template=_has_template(sizes, reader, where),
            where=f"{where} {_CONFIG}",
        )
    except HubError as error:
        return Told(tensors=tensors, notes=(f"{_CONFIG}: {error.sentence}",))
    return Told(shape, tensors)


def _has_template(sizes: Mapping[str, int], reader: Reader, where: str) -> bool:
    if any(name in sizes for name in _TEMPLATES):
        return True
    if _TOKENIZER not in sizes:
        return False
    return bool(_json(reader.text(_TOKENIZER), f"{where} {_TOKENIZER}").get("chat_template"))


def _json(text: str, where: str) -> Mapping[str, Any]:
    try:
        # Real ones hold Infinity, which strict readers refuse.
        value = json.loads(text.removeprefix("\ufeff"))
        if "\\ud" in text.lower():
            # Half of a pair that stands for one character is none: no document of ours could hold it.
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise HubError(
            "not JSON of a configuration", where=where, do="check the file, or use another repository"
        )
    return value


def _all(read: Callable[[str], T], names: Sequence[str]) -> list[T]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(read, names))
