"""`python -m benchmarks.vllm_memory`: what sizing predicts against what vLLM holds at its peak.

In: a `vllm` command of the newest version that the playbook knows, SmolLM2-135M-Instruct, and models of real
shapes with random weights, written aside and removed again. Out: a Markdown table on standard output;
progress on standard error. Each server gets the environment that the playbook renders, starts once with an
empty compile cache and once with what the first left, and each time is asked as much at once as it takes.
Exit code 1 when a prediction is under or far off.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import server
from cpudeploy.resolve.local import read_local
from cpudeploy.sizing.paged.need import paged_need
from cpudeploy.sizing.paged.serving import Paged
from tests.engines import NEWEST
from tests.lab import cache, hf, vllm
from tests.lab.hf import Shape

MIB, GIB = 1 << 20, 1 << 30
ANSWER_TOKENS = 8
SMOLLM2_VOCABULARY = 49152
SMALL = 2 * GIB
SLACK = 768 * MIB
"""Below `SMALL` a prediction may be over by this much, above by a tenth: compiling takes more of a model with
many layers than of the tiny one, and what it writes to /tmp counts in a container and not here."""


@dataclass(frozen=True)
class Setting:
    """One server. shape: of random weights; None is SmolLM2 itself. context: tokens of a request. parallel:
    requests at a time. kv: bytes of KV cache."""

    title: str
    shape: Shape | None
    context: int
    parallel: int
    kv: int
    eager: bool = False

    @property
    def vocabulary(self) -> int:
        return self.shape.vocabulary if self.shape else SMOLLM2_VOCABULARY

    @property
    def arguments(self) -> list[str]:
        words = ["--max-model-len", str(self.context), "--max-num-seqs", str(self.parallel)]
        words += ["--dtype", "bfloat16", "--tensor-parallel-size", "1"]
        if self.kv % GIB:
            words += ["--kv-cache-memory-bytes", str(self.kv)]
        return words + (["--enforce-eager"] if self.eager else [])


@dataclass(frozen=True)
class Run:
    """Bytes that one server held: most while it started, once it was ready, most in all, each by kind."""

    starting: server.Usage
    ready: server.Usage
    peak: server.Usage
    start_s: float


# Wide heads, so that few tokens fill much: 512 KiB of cache a token.
WIDE = Shape(
    layers=16, hidden=256, inner=512, heads=32, kv_heads=32, head=256, vocabulary=1024, context=16384
)
QWEN3_06B = Shape(
    layers=28,
    hidden=1024,
    inner=3072,
    heads=16,
    kv_heads=8,
    head=128,
    vocabulary=151936,
    context=32768,
)
QWEN3_17B = dataclasses.replace(QWEN3_06B, hidden=2048, inner=6144)

# The cache comes after compiling: only beside a small one does it show what compiling takes.
SETTINGS = (
    Setting("tiny, 64 MiB of cache", hf.TINY, 2048, 2, 64 * MIB),
    Setting("tiny, 1 GiB of cache", hf.TINY, 2048, 2, GIB),
    Setting("tiny, 1 GiB of cache, eager", hf.TINY, 2048, 2, GIB, eager=True),
    Setting("SmolLM2-135M-Instruct", None, 2048, 2, 93 * MIB),
    Setting("wide heads, 3 GiB of cache", WIDE, 3072, 2, 3 * GIB),
    Setting("wide heads, 3 GiB of cache, eager", WIDE, 3072, 2, 3 * GIB, eager=True),
    Setting("Qwen3-0.6B's shape", QWEN3_06B, 2304, 4, GIB),
    Setting("Qwen3-0.6B's shape, eager", QWEN3_06B, 2304, 4, GIB, eager=True),
    Setting("Qwen3-1.7B's shape", QWEN3_17B, 2304, 4, GIB),
)


def main() -> int:
    """Measure every setting asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vllm_memory")
    parser.add_argument("--vllm", type=Path, required=True, help="the `vllm` of an installation")
    parser.add_argument("--only", default="", help="settings whose title contains this (default: all)")
    parser.add_argument("--cpus", default="0", help="CPUs to bind threads to (default: 0)")
    parser.add_argument("--preload", default="", help="libraries that the image preloads")
    parser.add_argument("--once", action="store_true", help="with an empty compile cache only")
    options = parser.parse_args()
    rows, holds = [], True
    with tempfile.TemporaryDirectory(dir=cache.root()) as folder:
        for setting in [each for each in SETTINGS if options.only.lower() in each.title.lower()]:
            runs = list(measure(setting, options, Path(folder)))
            predicted = prediction(setting, model_folder(Path(folder), setting))
            measured = max(run.peak.total for run in runs)
            slack = SLACK if measured < SMALL else measured / 10
            holds = holds and 0 <= predicted - measured <= slack
            rows.append([*cells(setting, Path(folder), runs), f"{predicted / MIB:.0f}"])
            rows[-1].append(f"{(predicted - measured) / measured:+.1%}")
            say(" | ".join(rows[-1]))
            shutil.rmtree(random_weights(Path(folder), setting), ignore_errors=True)
    print("\n".join(table(rows)))
    print(
        f"\n{platform.machine()}, Linux {platform.release()}, {os.cpu_count()} CPUs, bound to {options.cpus}"
    )
    return 0 if holds else 1


def prediction(setting: Setting, model: Path) -> int:
    """Bytes that sizing says the server needs at its peak, from the headers of the model's files."""
    told = read_local(model, "safetensors").told
    if told.shape is None or told.tensors is None:
        raise RuntimeError(f"{model} tells neither shape nor tensors")
    serving = Paged(
        context=setting.context, parallel=setting.parallel, element=2, overhead=NEWEST, kv=setting.kv
    )
    return paged_need(told.shape, told.tensors, serving, largest_file=weights_bytes(model)).total


def model_folder(folder: Path, setting: Setting) -> Path:
    return random_weights(folder, setting) if setting.shape else vllm.smollm2()


def random_weights(folder: Path, setting: Setting) -> Path:
    return folder / re.sub(r"[^a-z0-9]+", "-", setting.title.lower())


def weights_bytes(folder: Path) -> int:
    return (folder / "model.safetensors").stat().st_size


def measure(setting: Setting, options: argparse.Namespace, folder: Path) -> Iterator[Run]:
    """Start, fill and stop the server, with an empty compile cache and with what that left."""
    model, compiled = model_folder(folder, setting), folder / "compiled"
    if setting.shape:
        hf.write(setting.shape, model)
    shutil.rmtree(compiled, ignore_errors=True)
    for cold in (True,) if options.once or setting.eager else (True, False):
        if cold:
            server.forget(model / "model.safetensors")
        port, log = server.free_port(), Path(tempfile.gettempdir()) / "vllm_memory.log"
        words = ["serve", str(model), "--served-model-name", "m", "--host", "127.0.0.1", "--port", str(port)]
        with server.serving(
            options.vllm,
            [*words, *setting.arguments],
            port=port,
            log=log,
            env=environment(setting, options, compiled),
            tree=True,
        ) as running:
            starting = running.peak
            fill(running, setting)
        yield Run(starting, running.loaded, running.peak, running.start_s)


def environment(setting: Setting, options: argparse.Namespace, compiled: Path) -> dict[str, str]:
    """What the playbook renders, with the folders of this machine."""
    first, _, last = options.cpus.partition("-")
    threads = int(last or first) - int(first) + 1
    space = {} if setting.kv % GIB else {"VLLM_CPU_KVCACHE_SPACE": str(setting.kv // GIB)}
    return {
        **space,
        "VLLM_CPU_OMP_THREADS_BIND": options.cpus,
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(compiled / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(compiled / "inductor"),
        "XDG_CACHE_HOME": str(compiled),
        "XDG_CONFIG_HOME": str(compiled / "config"),
        "LD_PRELOAD": options.preload,
        "PATH": f"{options.vllm.parent}:{os.environ['PATH']}",
    }


def fill(running: server.Server, setting: Setting) -> None:
    """Prompts of scattered tokens, each of a whole context, `parallel` at a time.

    The cache needs no filling: vLLM writes zeros to all of it before it is ready.
    """
    tokens = setting.context - ANSWER_TOKENS - 1

    def ask(number: int) -> None:
        prompt = [3 + (at * 7919 + number * 104729) % (setting.vocabulary - 4) for at in range(tokens)]
        body = {"model": "m", "prompt": prompt, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
        server.post(running, "/v1/completions", body)

    with ThreadPoolExecutor(setting.parallel) as pool:
        list(pool.map(ask, range(2 * setting.parallel)))


def table(rows: list[list[str]]) -> Iterator[str]:
    """All in MiB."""
    heads = ("setting", "compiled", "weights", "KV", "starting", "ready", "peak", "beyond weights and KV")
    yield f"| {' | '.join(heads)} | peak: anonymous + shared + file | ready after | predicted | off by |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|---|---|--:|--:|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def cells(setting: Setting, folder: Path, runs: list[Run]) -> list[str]:
    """One line of the table."""
    weights = weights_bytes(model_folder(folder, setting))
    kinds = [
        f"{run.peak.anonymous / MIB:.0f} + {run.peak.shared / MIB:.0f} + {run.peak.file / MIB:.0f}"
        for run in runs
    ]
    return [
        f"{setting.title}, {setting.parallel} × {setting.context}",
        "no" if setting.eager else "yes",
        f"{weights / MIB:.0f}",
        f"{setting.kv / MIB:.0f}",
        " / ".join(f"{run.starting.total / MIB:.0f}" for run in runs),
        " / ".join(f"{run.ready.total / MIB:.0f}" for run in runs),
        " / ".join(f"{run.peak.total / MIB:.0f}" for run in runs),
        " / ".join(f"{(run.peak.total - weights - setting.kv) / MIB:.0f}" for run in runs),
        " / ".join(kinds),
        " / ".join(f"{run.start_s:.0f} s" for run in runs),
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
