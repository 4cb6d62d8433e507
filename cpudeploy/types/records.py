"""What registries and Hubs said, kept for planning without asking them: the document `resolved.json`.

Keyed by what was asked, not by who asked: one document serves every manifest that wants the same things.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .base import Struct
from .deployment import HuggingFace, ModelScope, Source
from .resolved import ResolvedImage, ResolvedWeights

WeightsFormat = Literal["gguf", "safetensors"]


class RecordedWeights(Struct, frozen=True, kw_only=True):
    """What was said about one source, asked for files of one format."""

    source: Source
    format: WeightsFormat
    told: ResolvedWeights

    def answers(self, source: Source, format: WeightsFormat) -> bool:
        """Whether this is what asking for `source` came to: whoever asked, and with whatever token."""
        return self.format == format and _anonymous(self.source) == _anonymous(source)


class Records(Struct, frozen=True, kw_only=True):
    """Images by their normalised reference (`docker.io/library/x:tag`); weights in the order asked."""

    schema: Literal["cpudeploy.resolved/1"] = "cpudeploy.resolved/1"
    images: dict[str, ResolvedImage] = {}
    weights: tuple[RecordedWeights, ...] = ()

    def with_newer(self, newer: Records) -> Records:
        """These, with what `newer` says about the same things in their place."""
        kept = tuple(
            old
            for old in self.weights
            if not any(new.answers(old.source, old.format) for new in newer.weights)
        )
        return Records(images={**self.images, **newer.images}, weights=(*kept, *newer.weights))


def _anonymous(source: Source) -> Source:
    if isinstance(source, HuggingFace | ModelScope):
        return msgspec.structs.replace(source, token=None)
    return source
