"""How a model is to be served, as far as its memory depends on it."""

from __future__ import annotations

from dataclasses import dataclass

SLOT_GRAIN = 256
"""A slot's cells are rounded up to this many."""

_BATCH = 2048
"""The most tokens of one batch, unless the engine is told otherwise."""


@dataclass(frozen=True)
class Serving:
    """What llama-server is told. Sizes in bytes.

    context: tokens a request; parallel: slots, each with cells of its own. kv_type: type of the cache's
    elements (`f16`, `q8_0`). ubatch: tokens of one prompt batch. cache_ram: the prompt cache's limit;
    projector: bytes of the mmproj file, 0 without one. flags: what the CPU can do, None: not known.
    checkpoints: copies of what can't be rolled back that a slot may keep (`--ctx-checkpoints`).

    unified: all slots share one cache (`--kv-unified`). whole_windows: windowed layers keep all tokens all
    the same (`--swa-full`, and builds before 2025-05). flash: attention without its whole matrix
    (`--flash-attn`; builds before 2025-09 don't choose it themselves). Playbooks ask for none of it; logs of
    others do.
    """

    context: int
    parallel: int
    kv_type: str = "f16"
    ubatch: int = 512
    cache_ram: int = 0
    projector: int = 0
    flags: frozenset[str] | None = None
    checkpoints: int = 2
    unified: bool = False
    whole_windows: bool = False
    flash: bool = True

    @property
    def cells(self) -> int:
        """Cells of one stream: of a slot, or of the cache that all share."""
        return slot_tokens(self.context * (self.parallel if self.unified else 1))

    @property
    def streams(self) -> int:
        """Caches beside each other."""
        return 1 if self.unified else self.parallel

    @property
    def batch(self) -> int:
        """Tokens of one prompt batch as they come to be: never more than there are cells."""
        return min(self.ubatch, _BATCH, self.cells * self.streams)


def slot_tokens(context: int) -> int:
    """The cells llama.cpp gives a slot that was asked for `context` tokens."""
    return -(-context // SLOT_GRAIN) * SLOT_GRAIN
