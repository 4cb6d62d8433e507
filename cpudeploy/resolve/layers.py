"""A model's layers one by one, brought into the forms that sizing counts with. Pure.

In: what each layer keeps. Out: `AttentionLayers` and `RecurrentLayers`, equal ones together, in the order
in which the model has them first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import HubError
from ..types.shape import AttentionLayers, RecurrentLayers

MAX_LAYERS = 10_000
MAX_COUNT = 1 << 40
_MAX_ELEMENTS = 1 << 60
_MAX_ELEMENTS_A_TOKEN = 1 << 30


class Cache(NamedTuple):
    """A layer's KV cache, as in `AttentionLayers`."""

    kv_heads: int
    key_length: int
    value_length: int
    window: int | None = None

    @property
    def elements(self) -> int:
        """Of one token."""
        return self.kv_heads * (self.key_length + self.value_length)


class State(NamedTuple):
    """A layer's recurrent state, as in `RecurrentLayers`."""

    conv: int
    state: int


def attention_of(caches: Iterable[Cache], where: str) -> tuple[AttentionLayers, ...]:
    """The caches of a model's layers. One that holds nothing is none. Raises HubError for one that no machine
    could hold."""
    counted = Counter(each for each in caches if each.elements)
    if any(each.elements > _MAX_ELEMENTS_A_TOKEN for each in counted):
        raise _too_large("a cache", where)
    return tuple(
        AttentionLayers(
            layers=count,
            kv_heads=each.kv_heads,
            key_length=each.key_length,
            value_length=each.value_length,
            window=each.window,
        )
        for each, count in counted.items()
    )


def recurrent_of(states: Iterable[State], where: str) -> tuple[RecurrentLayers, ...]:
    """The states of a model's layers. One that holds nothing is none. Raises HubError for one that no machine
    could hold."""
    counted = Counter(each for each in states if each.conv + each.state)
    if any(each.conv + each.state > _MAX_ELEMENTS for each in counted):
        raise _too_large("a state", where)
    return tuple(
        RecurrentLayers(layers=count, conv=each.conv, state=each.state) for each, count in counted.items()
    )


def _too_large(what: str, where: str) -> HubError:
    return HubError(
        f"it claims {what} larger than any machine holds",
        where=where,
        do="check the file, or take it from another repository",
    )


def convolved(kernel: int, inner: int, groups: int, state: int) -> State:
    """Mamba-like layers: `inner` channels, each with `state` elements; the last inputs of a convolution
    over the channels and their groups' two state vectors."""
    return State(conv=max(kernel - 1, 0) * (inner + 2 * groups * state), state=state * inner)
