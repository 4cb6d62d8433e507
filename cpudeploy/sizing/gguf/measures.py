"""One llama.cpp server's need, and where each part comes from, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ...types.allocation import MemoryNeed
from ...types.shape import ModelShape, Tensors
from ...types.words import count
from .kv import cells_of
from .need import gguf_need
from .serving import SLOT_GRAIN, Serving, slot_tokens


@dataclass(frozen=True)
class GgufMeasures:
    """All that a model's need is worked out from; what would fit is found by changing it. file_bytes: of the
    model's files, no projector."""

    shape: ModelShape
    tensors: Tensors
    serving: Serving
    file_bytes: int

    grain = SLOT_GRAIN
    """Contexts that differ by less need the same."""

    @property
    def need(self) -> MemoryNeed:
        return gguf_need(self.shape, self.tensors, self.serving, file_bytes=self.file_bytes)

    @property
    def least(self) -> int:
        """Bytes that a limit must have: the need."""
        return self.need.total

    @property
    def cells(self) -> int:
        """Tokens of all slots, as the engine rounds them."""
        return slot_tokens(self.serving.context) * self.serving.parallel

    @property
    def reasons(self) -> dict[str, str]:
        """Part of the need → where its number comes from."""
        shape, serving = self.shape, self.serving
        slots = count(serving.parallel, "slot")
        state = "for each slot" + (
            f" and {serving.checkpoints} copies to go back to" if serving.checkpoints else ""
        )
        return {
            "weights": "the model's files, which the engine maps into memory",
            "repack": "matrices kept a second time, arranged for this CPU",
            "kv": f"in {serving.kv_type} for {slots}: {' + '.join(_layers(shape, serving))}",
            "state": f"what recurrent layers and windows keep, {state}",
            "compute": f"prompt batches of {serving.batch} tokens, a vocabulary of {shape.vocabulary}",
            "engine": f"the server, its vocabulary, {slots}",
            "cache": "prompts kept beside the slots, as `cache_ram_mib` says",
            "projector": "the file that lets the model see, and its buffers",
        }


def _layers(shape: ModelShape, serving: Serving) -> list[str]:
    return [
        f"{count(each.layers, 'layer')} × {count(each.kv_heads, 'head')} × "
        f"({each.key_length} + {each.value_length}) × "
        f"{cells_of(each, serving)} tokens" + (f" (a window of {each.window})" if each.window else "")
        for each in shape.attention
    ]
