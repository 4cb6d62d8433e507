"""What `benchmarks.tuning` starts: an engine's rendered command and environment, and one thing changed.

In: a container's arguments and variables as cpudeploy rendered them, and the cores it may use. Out: the
settings to try, each of which turns these into others. A flag whose value is None is left out: the engine's
default holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile

OURS, DEFAULTS, F16 = "ours", "the engine's defaults", "ours, F16 weights"
DEFAULTS_SIZED = "the defaults, sized as ours"
"""Where the defaults ask for more memory than there is, these tell what else they do."""
LLAMA, VLLM = "llama.cpp", "vLLM"
GIB = 1 << 30


@dataclass(frozen=True)
class Setting:
    """Ours but for these flags (each with its values) and variables. weights: whether it has the F16 file."""

    title: str
    flags: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    weights: bool = False

    @property
    def compared(self) -> bool:
        """Whether it competes with ours, which it doesn't with other weights."""
        return not self.weights

    def command(self, ours: Sequence[str]) -> list[str]:
        """The container's arguments."""
        words = list(without(ours, self.flags))
        for flag, values in self.flags.items():
            words += [flag, *values] if values is not None else []
        return words

    def variables(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The container's environment."""
        kept = {name: value for name, value in ours.items() if name not in self.env}
        return kept | {name: value for name, value in self.env.items() if value is not None}


def without(command: Sequence[str], flags: Mapping[str, object]) -> Iterator[str]:
    """The arguments but for these flags and their values, which are all words up to the next flag."""
    words = list(command)
    while words:
        word = words.pop(0)
        if word in flags:
            del words[: len(list(takewhile(lambda value: not value.startswith("--"), words)))]
        else:
            yield word


def settings(engine: str, cores: Set[int]) -> list[Setting]:
    """Ours first, then the defaults, then the others: at most twelve that compete, for a model deployed with
    4 requests at a time. cores: the CPUs that the container may use."""
    return list(llama(len(cores)) if engine == LLAMA else vllm(cores))


def llama(cores: int) -> Iterator[Setting]:
    yield Setting(OURS)
    yield Setting(
        DEFAULTS,
        {
            "--threads": None,
            "--threads-batch": None,
            "--ctx-size": None,
            "--parallel": None,
            "--cache-type-k": None,
            "--cache-type-v": None,
            "--ubatch-size": None,
            "--cache-ram": None,
            "--ctx-checkpoints": None,
        },
    )
    if cores > 1:
        fewer = str(cores - 1)
        yield Setting("a thread fewer", {"--threads": [fewer], "--threads-batch": [fewer]})
        yield Setting("a thread fewer for prompts", {"--threads-batch": [fewer]})
        yield Setting("threads that don't poll", {"--poll": ["0"]})
    more = str(cores + 1)
    yield Setting("a thread more", {"--threads": [more], "--threads-batch": [more]})
    yield Setting("prompt batches of 2048", {"--ubatch-size": ["2048"]})
    yield Setting("8 slots", {"--parallel": ["8"], "--ctx-size": ["8192"]})
    yield Setting("KV cache in q8_0", {"--cache-type-k": ["q8_0"], "--cache-type-v": ["q8_0"]})
    yield Setting("no flash attention", {"--flash-attn": ["off"]})
    yield Setting("weights not rearranged", {"--no-repack": []})
    yield Setting(F16, {"--model": ["/f16.gguf"]}, weights=True)


def vllm(cores: Set[int]) -> Iterator[Setting]:
    number = str(len(cores))
    threads = ("VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS")
    yield Setting(OURS)
    yield Setting(
        DEFAULTS,
        {
            "--max-model-len": None,
            "--max-num-seqs": None,
            "--dtype": None,
            "--tensor-parallel-size": None,
            "--kv-cache-memory-bytes": None,
        },
        dict.fromkeys((*threads, "VLLM_CPU_KVCACHE_SPACE")),
    )
    yield Setting(  # beside binding threads by itself, `auto`, that is little else
        DEFAULTS_SIZED,
        {"--max-num-seqs": None, "--dtype": None, "--tensor-parallel-size": None},
        dict.fromkeys(threads),
    )
    yield Setting("nobind", env=dict(zip(threads, ("nobind", number), strict=True)))
    if len(cores) > 1:
        fewer = ",".join(map(str, sorted(cores)[1:]))
        yield Setting("a thread fewer", env={"VLLM_CPU_OMP_THREADS_BIND": fewer})
        yield Setting("OMP_NUM_THREADS beside the list", env={"OMP_NUM_THREADS": number})
    yield Setting("16 sequences", {"--max-num-seqs": ["16"]})
    yield Setting("batches of 512 tokens", {"--max-num-batched-tokens": ["512"]})
    yield Setting("cache blocks of 32", {"--block-size": ["32"]})
    yield Setting("not compiled", {"--enforce-eager": []})
    yield Setting("float32", {"--dtype": ["float32"]})
    yield Setting(
        "KV cache of 2 GiB",
        {"--kv-cache-memory-bytes": [str(2 * GIB)]},
        {"VLLM_CPU_KVCACHE_SPACE": None},
    )
