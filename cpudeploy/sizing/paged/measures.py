"""One vLLM server's need, and where each part comes from, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ...types.allocation import MemoryNeed
from ...types.shape import ModelShape, Tensors
from .kv import pool_of
from .need import paged_need, start_bytes
from .serving import BLOCK, Paged

_TYPES = {2: "16-bit numbers", 4: "32-bit numbers; `dtype: bfloat16` halves them"}


@dataclass(frozen=True)
class PagedMeasures:
    """All that a model's need is worked out from; what would fit is found by changing it."""

    shape: ModelShape
    tensors: Tensors
    serving: Paged
    file_bytes: int
    largest_file: int

    grain = BLOCK
    """Contexts that differ by less need the same."""

    @property
    def need(self) -> MemoryNeed:
        return paged_need(self.shape, self.tensors, self.serving, largest_file=self.largest_file)

    @property
    def least(self) -> int:
        """Bytes without which the server does not start, though it comes to need fewer."""
        return start_bytes(self.need, self.serving, file_bytes=self.file_bytes)

    @property
    def cells(self) -> int:
        """Tokens of all requests."""
        return self.serving.context * self.serving.parallel

    @property
    def reasons(self) -> dict[str, str]:
        """Part of the need → where its number comes from."""
        serving = self.serving
        ranks = f", and of {serving.ranks} ranks" if serving.ranks > 1 else ""
        return {
            "weights": f"the model's tensors in {_TYPES.get(serving.element, 'its type')}",
            "repack": "all of it a second time, arranged for this CPU",
            "kv": self._kv(),
            "compute": f"steps of {serving.step} tokens, a vocabulary of {self.shape.vocabulary}",
            "engine": f"Python, libraries and processes of this version{ranks}",
            "files": "the largest of the model's files while it is copied, beyond what is made later",
            "compile": "what compiling takes beyond the KV cache made later",
        }

    def _kv(self) -> str:
        serving, pool = self.serving, pool_of(self.shape, self.serving)
        each = f", for each of {serving.ranks} ranks" if serving.ranks > 1 else ""
        if serving.kv is not None:
            return f"as set by hand{each}"
        whole = ", in whole GiB" if serving.overhead.kv == "GiB" else ""
        return (
            f"{serving.parallel} × {pool.request} blocks of {pool.block / (1 << 20):.4g} MiB and one more, "
            f"for {serving.parallel} × {serving.context} tokens{whole}{each}"
        )
