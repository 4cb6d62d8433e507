"""`python -m benchmarks.memory`: what sizing predicts against what llama-server holds at its peak.

In: the lab's llama-server and SmolLM2, and models of real shapes with random weights, written aside and
removed again. Out: a Markdown table on standard output; progress on standard error. Each server is started
with the arguments that the playbook renders, once with its file dropped from the page cache and once with
it there, and each time all slots are filled to the last cell. Exit code 1 when a prediction is under or far
off.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from gguf import GGMLQuantizationType as Type

from benchmarks import server, synthetic
from benchmarks.synthetic import Model
from cpudeploy.resolve.local import read_local
from cpudeploy.sizing.gguf.need import gguf_need
from cpudeploy.sizing.gguf.serving import Serving
from cpudeploy.sizing.memory import MIB
from cpudeploy.steps.wanted import wanted_instance
from cpudeploy.types.allocation import MemoryNeed
from cpudeploy.types.resolved import WeightFile
from cpudeploy.types.shape import ModelShape, Tensors
from tests.factories import placement, playbooks
from tests.lab import cache, llama, models
from tests.steps.wishes import allocation_of, context_of

THREADS = 1
"""Its memory does not depend on them; on a busy machine more of them wait for each other."""
SMALL = 640 * MIB
SLACK = 64 * MIB
"""Below `SMALL` a prediction may be over by this much, above by a tenth."""


@dataclass(frozen=True)
class Setting:
    """One server: its model (None: SmolLM2), context of a slot, slots, type of the cache."""

    title: str
    model: Model | None
    context: int
    parallel: int
    kv_type: str = "f16"


@dataclass(frozen=True)
class Row:
    """What was predicted and what was seen of one setting, cold and warm."""

    setting: Setting
    need: MemoryNeed
    cold: server.Usage
    warm: server.Usage
    high_water: int

    @property
    def measured(self) -> int:
        return max(self.cold.total, self.warm.total, self.high_water)

    @property
    def holds(self) -> bool:
        over = self.need.total - self.measured
        return 0 <= over <= (SLACK if self.measured < SMALL else self.measured / 10)


_WIDE_KV = Model("kv-wide", "llama", 104, 64, 128, 16, 16, 256, 32000, quant=Type.F16)

SETTINGS = (
    Setting("SmolLM2-135M Q4_1, real", None, 512, 1),
    Setting("SmolLM2-135M Q4_1, real, 4 slots", None, 256, 4),
    Setting("KV: 104 layers, 16 heads of 256", _WIDE_KV, 256, 8),
    Setting("KV: the same, in q8_0", _WIDE_KV, 256, 8, "q8_0"),
    Setting(
        "vocabulary of 262144, 16 slots",
        Model("vocabulary", "qwen3", 4, 1024, 3072, 16, 8, 128, 262144, tied=True),
        256,
        16,
    ),
    Setting(
        "weights: dense Q4_K, rearranged",
        Model("dense-q4k", "llama", 12, 4096, 14336, 32, 8, 128, 32000),
        256,
        1,
    ),
    Setting(
        "weights: 40 experts, Q8_0",
        Model(
            "moe-q8",
            "qwen3moe",
            16,
            2048,
            768,
            16,
            4,
            128,
            151936,
            quant=Type.Q8_0,
            experts=40,
            experts_used=8,
            tied=True,
        ),
        256,
        2,
    ),
    Setting(
        "windows: gemma-3-270m's shape",
        Model(
            "gemma3-270m", "gemma3", 18, 640, 2048, 4, 1, 256, 262144, quant=Type.Q8_0, window=512, tied=True
        ),
        1280,
        2,
    ),
    Setting(
        "states: those of Qwen3.5-0.8B, 8 slots",
        Model("states", "qwen35", 24, 256, 512, 4, 1, 64, 32000, inner=2048),
        256,
        8,
    ),
)


def main() -> int:
    """Measure every setting asked for; 0 when each prediction holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("--only", default="", help="settings whose title contains this (default: all)")
    parser.add_argument("--rounds", type=int, default=2, help="how often slots are filled (default: 2)")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many")
    parser.add_argument("--server", type=Path, help="another llama-server (default: the lab's)")
    options = parser.parse_args()
    chosen = [each for each in SETTINGS[options.skip :] if options.only.lower() in each.title.lower()]
    if not chosen:
        parser.error(f"no setting is left of: {'; '.join(each.title for each in SETTINGS)}")
    binary = options.server or llama.server()
    rows = []
    with tempfile.TemporaryDirectory(dir=cache.root()) as folder:
        for setting in chosen:
            rows.append(measure(setting, binary, Path(folder), options.rounds))
            say(" | ".join(cells(rows[-1])))
    print("\n".join(table(rows)))
    print(f"\n{platform.machine()}, Linux {platform.release()}, {os.cpu_count()} CPUs, {binary.name}")
    return 0 if all(row.holds for row in rows) else 1


def measure(setting: Setting, binary: Path, folder: Path, rounds: int) -> Row:
    """Start, fill and stop the server twice, cold and warm."""
    made = folder / "model.gguf"
    if setting.model is not None:
        synthetic.write(setting.model, made)
    path = made if setting.model is not None else models.smollm2()
    try:
        serving = Serving(
            context=setting.context, parallel=setting.parallel, kv_type=setting.kv_type, flags=cpu_flags()
        )
        need, vocabulary = predicted(path, serving)
        size = path.stat().st_size / MIB
        say(f"{setting.title}: {size:.0f} MiB of weights, {need.total / MIB:.0f} predicted")
        runs = []
        for cold in (True, False):
            if cold:
                server.forget(path)
            log, port = folder / "server.log", server.free_port()
            with server.serving(binary, arguments(path, setting, port), port=port, log=log) as running:
                for seed in range(rounds):
                    server.fill(
                        running,
                        context=setting.context,
                        parallel=setting.parallel,
                        vocabulary=vocabulary,
                        seed=seed,
                    )
            runs.append(running)
    finally:
        made.unlink(missing_ok=True)
    return Row(setting, need, runs[0].peak, runs[1].peak, max(run.high_water for run in runs))


def header(path: Path) -> tuple[ModelShape, Tensors]:
    """What a GGUF file tells of itself."""
    told = read_local(path, "gguf").told
    if told.shape is None or told.tensors is None:
        raise ValueError(f"{path} tells no shape")
    return told.shape, told.tensors


def predicted(path: Path, serving: Serving) -> tuple[MemoryNeed, int]:
    """The need as sizing sees it, from the file's header, and the size of the vocabulary."""
    shape, tensors = header(path)
    return gguf_need(shape, tensors, serving, file_bytes=path.stat().st_size), shape.vocabulary


def arguments(path: Path, setting: Setting, port: int) -> list[str]:
    """What the playbook renders for this setting, with the file and the port of this machine."""
    wish = placement(context=setting.context, parallel=setting.parallel)
    context = context_of(wish)
    backend = context.deployment.backends[wish.backend]
    weights = context.resolved.weights[f"{wish.model}@one"]
    entry = WeightFile(name=path.name, size=path.stat().st_size, sha256="0" * 64, urls=())
    instance = wanted_instance(
        context,
        wish,
        msgspec.structs.replace(
            allocation_of(wish),
            threads=THREADS,
            threads_batch=THREADS,
            context=setting.context,
            parallel=setting.parallel,
            context_total=Serving(setting.context, setting.parallel).cells * setting.parallel,
        ),
        msgspec.structs.replace(backend, params={"kv_type": setting.kv_type}),
        playbooks()["llama-cpp"],
        context.resolved.images[wish.backend],
        msgspec.structs.replace(weights, files=(entry,), entry=entry.name),
    )
    here = {f"/models/{path.name}": str(path), "8080": str(port)}
    return [here.get(word, word) for word in instance.container.command]


def cpu_flags() -> frozenset[str]:
    """This machine's CPU flags, as far as the lab's build can use them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.split(":")[0].strip() in ("flags", "Features")), ":")
    return frozenset(flags.split(":")[1].split())


def table(rows: list[Row]) -> Iterator[str]:
    """Predicted and measured in MiB."""
    heads = ("setting", "slots × context", "predicted", "measured", "over", "anonymous", "file, cold / warm")
    yield f"| {' | '.join(heads)} | parts predicted |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    for row in rows:
        yield f"| {' | '.join(cells(row))} |"


def cells(row: Row) -> list[str]:
    """One line of the table."""
    parts = {name: getattr(row.need, name) for name in row.need.__struct_fields__}
    told = ", ".join(f"{name} {size / MIB:.0f}" for name, size in parts.items() if size >= MIB / 2)
    over = row.need.total / row.measured - 1
    kind = "" if row.setting.kv_type == "f16" else f" {row.setting.kv_type}"
    return [
        row.setting.title,
        f"{row.setting.parallel} × {row.setting.context}{kind}",
        f"{row.need.total / MIB:.0f}",
        f"{row.measured / MIB:.0f}",
        f"{over:+.1%}" + ("" if row.holds else " **off**"),
        f"{max(row.cold.anonymous, row.warm.anonymous) / MIB:.0f}",
        f"{row.cold.file / MIB:.0f} / {row.warm.file / MIB:.0f}",
        told,
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
