"""How a model is to be served, as far as its memory depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from ...types.playbook import Overhead

BLOCK = 128
"""Tokens of one block of the cache (`--block-size`'s default on CPUs)."""

STEP = 2048
"""Tokens that the scheduler takes into one step, for each rank (default of `--max-num-batched-tokens`)."""


@dataclass(frozen=True)
class Paged:
    """What the server is told. context: tokens a request; parallel: requests at a time. element: bytes of one
    number, of weights and cache alike. ranks: parts that the model is split into. overhead: what this version
    takes beside. kv: bytes of each rank's cache where they were set by hand, else None.
    """

    context: int
    parallel: int
    element: int
    overhead: Overhead
    ranks: int = 1
    kv: int | None = None

    @property
    def step(self) -> int:
        return STEP * self.ranks
