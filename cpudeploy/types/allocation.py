"""What a model gets on its host, each number with its reason. Built by `sizing/`, read by plan."""

from __future__ import annotations

from .base import Struct


class MemoryNeed(Struct, frozen=True, kw_only=True):
    """Predicted peak of one instance, in bytes, by part."""

    weights: int
    repack: int
    """Weights the engine keeps a second time, rearranged for the CPU."""
    kv: int
    state: int
    """Recurrent states of all slots, and the copies kept of them and of windows (`--ctx-checkpoints`)."""
    compute: int
    engine: int
    cache: int
    """Prompt cache kept beside the slots (`--cache-ram`)."""
    projector: int = 0
    """What lets the model see (`mmproj`), with its own buffers."""

    @property
    def total(self) -> int:
        return (
            self.weights
            + self.repack
            + self.kv
            + self.state
            + self.compute
            + self.engine
            + self.cache
            + self.projector
        )


class Allocation(Struct, frozen=True, kw_only=True):
    """One instance's share of a host.

    cpuset: kernel cpu list (`0-3,8`). mems: NUMA nodes its memory is bound to, as such a list; empty: any.
    threads: for decoding. threads_batch: for prompt batches.
    context: tokens a request; parallel: requests at a time; context_total: tokens of all slots as the
    engine rounds them. memory: the container's limit in bytes.
    kept: its cores are taken over from the running instance. reasons: field of this or of `need` → one clause
    for people; `limit` is that of `memory`. warnings: what is allowed but should be known before.
    """

    model: str
    host: str
    instance: int
    cpuset: str
    mems: str = ""
    threads: int
    threads_batch: int
    context: int
    parallel: int
    context_total: int
    memory: int
    need: MemoryNeed
    kept: bool = False
    reasons: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
