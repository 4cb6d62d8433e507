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
    files: int = 0
    """The largest of the model's files while it is copied, as far as it is more than the KV cache to come."""
    compile: int = 0
    """What compiling takes, as far as it is more than the KV cache to come."""

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
            + self.files
            + self.compile
        )


class Allocation(Struct, frozen=True, kw_only=True):
    """One instance's share of a host.

    cpuset: kernel cpu list (`0-3,8`). mems: NUMA nodes its memory is bound to, as such a list; empty: any.
    threads: for decoding, of all ranks together. threads_batch: for prompt batches. ranks: parts that an
    engine which binds its own threads splits the model into, each on one NUMA node; 1 for all others.
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
    ranks: int = 1
    context: int
    parallel: int
    context_total: int
    memory: int
    need: MemoryNeed
    kept: bool = False
    reasons: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
