"""A GGUF header's values by key: bounded numbers, one a model or one a layer. Pure.

In: a parsed header, from anywhere. Out: numbers that are what they should be, or HubError.
"""

from __future__ import annotations

from ..errors import HubError
from .gguf import Parsed, wrong
from .layers import MAX_COUNT


class Header:
    """The values below a header's architecture."""

    def __init__(self, parsed: Parsed, where: str) -> None:
        architecture = parsed.metadata.get("general.architecture")
        if not isinstance(architecture, str):
            raise wrong(where, "the header names no architecture")
        self.architecture = architecture
        self._parsed = parsed
        self._where = where

    def number(self, key: str, default: int = 0, most: int = MAX_COUNT) -> int:
        value = self._parsed.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise wrong(self._where, f"{self.architecture}.{key} is {value!r}")
        return value

    def need(self, key: str, most: int = MAX_COUNT) -> int:
        if not self.has(key):
            raise HubError(
                f"the header has no {self.architecture}.{key}: not a language model by itself",
                where=self._where,
                do="name the model's own file by `quant` or `files`",
            )
        return self.number(key, most=most)

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self._parsed.metadata

    def listed(self, key: str, layers: int) -> tuple[int, ...] | None:
        """A value a layer, or None where the header lists none."""
        values = self._parsed.lists.get(f"{self.architecture}.{key}")
        if values is None:
            return None
        if len(values) < layers or not all(0 <= value <= MAX_COUNT for value in values):
            raise wrong(self._where, f"{self.architecture}.{key} does not fit {layers} layers")
        return values[:layers]

    def by_layer(self, key: str, layers: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A value a layer, whether it is listed or one for all."""
        values = self.listed(key, layers)
        if values is not None:
            return values
        if default is not None and not self.has(key):
            return default
        return (self.number(key),) * layers

    def vocabulary(self) -> int:
        tokens = self._parsed.metadata.get("tokenizer.ggml.tokens#")
        return tokens if isinstance(tokens, int) else self.number("vocab_size")
