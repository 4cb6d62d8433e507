"""`python -m benchmarks.speed`: the range that `recommend` tells against what llama-server makes.

In: the lab's llama-server and SmolLM2, and models of 0.6 to 2 GB with random weights, written aside and
removed again. Out: a Markdown table on standard output; progress on standard error. Server, requests and the
measuring of the bandwidth take turns on the same cores, so what else the machine does meets all of them; a
figure is the median of the rounds. Speeds are the server's own `timings`. Exit code 1 when one lies outside
its range.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gguf import GGMLQuantizationType as Type

from benchmarks import server, synthetic
from benchmarks.memory import cpu_flags, header, say
from benchmarks.synthetic import Model
from cpudeploy.probe.bandwidth import script
from cpudeploy.sizing.gguf.serving import Serving
from cpudeploy.sizing.speed import Engine, decode_speed
from cpudeploy.types.recommendation import Speed
from tests.lab import cache, llama, models

ROUNDS = 3
CONTEXT = 512
PROMPT = 8
SPARE = 2 << 30
"""Bytes that measuring the bandwidth may take."""


def dense(quant: Type) -> Model:
    """About 1.1 billion parameters."""
    return Model("dense", "llama", 22, 2048, 5632, 32, 4, 64, 32000, quant=quant)


MODELS: dict[str, Model | None] = {
    "SmolLM2-135M Q4_1, real": None,
    "1.1 billion, Q4_0": dense(Type.Q4_0),
    "1.1 billion, Q4_K": dense(Type.Q4_K),
    "1.1 billion, Q8_0": dense(Type.Q8_0),
    "1.1 billion, F16": dense(Type.F16),
    "3 billion, Q4_K": Model("large", "llama", 28, 3072, 8192, 24, 8, 128, 32000, quant=Type.Q4_K),
    "40 experts, 8 used, Q8_0": Model(
        "experts", "qwen3moe", 16, 2048, 768, 16, 4, 128, 32000, quant=Type.Q8_0, experts=40, experts_used=8
    ),
}


@dataclass(frozen=True)
class Row:
    """One server: title, threads, slots; bytes a second read beside it; tokens a second of all slots."""

    title: str
    threads: int
    parallel: int
    bandwidth: int
    told: Speed
    measured: float

    @property
    def holds(self) -> bool:
        return self.told.total.low <= self.measured <= self.told.total.high


def main() -> int:
    """Measure; 0 when every figure lies in its range."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed")
    parser.add_argument("--only", default="", help="models whose title contains this (default: all)")
    parser.add_argument("--server", type=Path, help="another llama-server (default: the lab's)")
    options = parser.parse_args()
    chosen = {title: model for title, model in MODELS.items() if options.only.lower() in title.lower()}
    if not chosen:
        parser.error(f"no such model; there are: {'; '.join(MODELS)}")
    binary = options.server or llama.server()
    cpus = sorted(os.sched_getaffinity(0))
    rows = []
    with tempfile.TemporaryDirectory(dir=cache.root()) as folder:
        for title, model in chosen.items():
            path = models.smollm2() if model is None else Path(folder) / "model.gguf"
            if model is not None:
                synthetic.write(model, path)
            for threads in sorted({1, len(cpus)}):
                for parallel in (1, 4):
                    rows.append(measure(title, path, binary, cpus[:threads], parallel))
                    say(" | ".join(cells(rows[-1])))
    print("\n".join(table(rows)))
    print(
        f"\n{platform.machine()}, Linux {platform.release()}, {len(cpus)} CPUs, load {os.getloadavg()[0]:.1f}"
    )
    return 0 if all(row.holds for row in rows) else 1


def measure(title: str, path: Path, binary: Path, cpus: list[int], parallel: int) -> Row:
    """Rounds of requests and of reading memory, on the same cores."""
    shape, tensors = header(path)
    port, log = server.free_port(), Path(os.devnull)
    threads = str(len(cpus))
    words = ["--model", str(path), "--port", str(port), "--threads", threads, "--threads-batch", threads]
    words += ["--ctx-size", str(CONTEXT * parallel), "--parallel", str(parallel), "--cache-ram", "0"]
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        with server.serving(binary, words, port=port, log=log) as running:
            ask(running, parallel)
            speeds, reads = [], []
            for _ in range(ROUNDS):
                speeds.append(ask(running, parallel))
                reads.append(bandwidth(cpus))
    finally:
        os.sched_setaffinity(0, every)
    reading = int(median(reads))
    told = decode_speed(
        shape,
        tensors,
        Serving(context=CONTEXT, parallel=parallel),
        Engine(bandwidth=reading, threads=len(cpus), flags=cpu_flags()),
    )
    if told is None:
        raise ValueError(f"{title} is too small for a range")
    return Row(title, len(cpus), parallel, reading, told, median(speeds))


def ask(running: server.Server, parallel: int) -> float:
    """Tokens a second of all slots, each answering at the same time."""

    def one(slot: int) -> float:
        body = {"prompt": [5 + slot] * PROMPT, "n_predict": 24, "ignore_eos": True, "cache_prompt": False}
        return float(server.post(running, "/completion", body)["timings"]["predicted_per_second"])

    with ThreadPoolExecutor(parallel) as pool:
        return sum(pool.map(one, range(parallel)))


def bandwidth(cpus: list[int]) -> int:
    """What `--measure` runs on a host."""
    text = f"cpus={','.join(map(str, cpus))}\nspare={SPARE}\n{script()}"
    done = subprocess.run(["/bin/sh"], input=text, capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


def table(rows: list[Row]) -> Iterator[str]:
    """Told and measured, tokens a second of all requests together."""
    yield "| model | read a token | threads | requests | memory reads | told | measured |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        yield f"| {' | '.join(cells(row))} |"


def cells(row: Row) -> list[str]:
    """One line of the table."""
    told = row.told.total
    return [
        row.title,
        f"{row.told.read / 1e6:.0f} MB",
        str(row.threads),
        str(row.parallel),
        f"{row.bandwidth / 1e9:.1f} GB/s",
        f"{told.low:.1f}–{told.high:.1f}",
        f"{row.measured:.1f}" + ("" if row.holds else " **outside**"),
    ]


if __name__ == "__main__":
    sys.exit(main())
