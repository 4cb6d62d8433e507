"""KV caches, recurrent states and compute buffers are what llama.cpp's own logs say.

With CPUDEPLOY_MODELS naming a file (or its folder) of more published logs, those are compared as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.errors import CpudeployError
from cpudeploy.resolve.config import shape_of
from cpudeploy.sizing.gguf.compute import compute_buffer
from cpudeploy.sizing.gguf.kv import checkpoint_bytes, kv_bytes, state_bytes
from cpudeploy.sizing.gguf.serving import Serving
from cpudeploy.types.shape import ModelShape, Tensors
from tests.factories import shape
from tests.sizing.logged import CONFIGS, LOGS, Log

MIB = 1 << 20
LATENT = {"deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1"}


def compared(**wanted: bool) -> list[Any]:
    """The logs that tell all of this."""
    return [
        pytest.param(log, id=f"{log.model} {log.context} {log.slots} {log.kv_type}")
        for log in LOGS
        if not log.aside and all(getattr(log, name) is not None for name in wanted)
    ]


def serving_of(log: Log) -> Serving:
    return Serving(
        -(-log.context // log.slots),
        log.slots,
        log.kv_type,
        ubatch=log.ubatch,
        unified=log.unified,
        whole_windows=log.whole_windows,
        flash=log.flash,
    )


@pytest.mark.parametrize("log", compared(kv=True))
def test_the_kv_cache_is_as_logged(log: Log):
    assert kv_bytes(shape_of(CONFIGS[log.model]), serving_of(log)) / MIB == pytest.approx(log.kv, rel=1e-3)


@pytest.mark.parametrize("log", compared(state=True))
def test_the_state_of_all_slots_is_as_logged(log: Log):
    serving = Serving(log.context, log.slots, log.kv_type)
    assert state_bytes(shape_of(CONFIGS[log.model]), serving) / MIB == pytest.approx(log.state, rel=1e-3)


@pytest.mark.parametrize("log", compared(compute=True))
def test_the_compute_buffer_is_never_under_what_was_logged_and_at_most_a_fifth_over(log: Log):
    """Builds of their time reserve the logits of a whole batch."""
    serving = serving_of(log)
    found = compute_buffer(shape_of(CONFIGS[log.model]), Tensors(size=0), serving, outputs=serving.batch)
    assert log.compute is not None
    assert log.compute <= found / MIB <= 1.2 * log.compute


def test_whatever_is_set_aside_says_why():
    assert all(len(log.aside) > 20 for log in LOGS if log.aside)
    assert sum(bool(log.aside) for log in LOGS) < len(LOGS) / 5


@pytest.mark.parametrize(
    ("kv_type", "share"), [("bf16", 1), ("q8_0", 17 / 32), ("q5_1", 3 / 8), ("q4_0", 9 / 32), ("f32", 2)]
)
def test_the_type_of_the_cache_scales_it(kv_type: str, share: float):
    wide = kv_bytes(shape(), Serving(4096, 2))
    assert kv_bytes(shape(), Serving(4096, 2, kv_type)) == wide * share


def test_a_slot_has_whole_cells_of_256():
    assert kv_bytes(shape(), Serving(300, 2)) == kv_bytes(shape(), Serving(512, 2))
    assert kv_bytes(shape(), Serving(512, 2)) == 2 * kv_bytes(shape(), Serving(512, 1))


def test_a_latent_cache_is_far_smaller_than_one_of_all_heads():
    config = CONFIGS["DeepSeek-V2-Lite"]
    serving = Serving(8192, 1)
    assert kv_bytes(shape_of(config, latent=True), serving) / MIB == pytest.approx(243, rel=1e-3)


class TestCheckpoints:
    def test_a_model_that_attends_to_everything_needs_none(self):
        assert checkpoint_bytes(shape(), Serving(8192, 4, checkpoints=32)) == 0

    def test_each_is_a_copy_of_what_cannot_be_taken_back(self):
        hybrid = shape_of(CONFIGS["Qwen3.5-4B"])
        one = state_bytes(hybrid, Serving(8192, 1))
        assert checkpoint_bytes(hybrid, Serving(8192, 4, checkpoints=32)) >= 32 * 4 * one

    def test_a_window_is_copied_without_the_batch_beside_it(self):
        windowed = shape_of(CONFIGS["gemma-3-270m"])
        window = 15 * 512 * 2 * 256 * 2  # layers, tokens, keys and values of 256, f16
        assert checkpoint_bytes(windowed, Serving(8192, 1, checkpoints=1)) == 2 * window

    def test_none_are_kept_where_the_playbook_says_none(self):
        assert checkpoint_bytes(shape_of(CONFIGS["Qwen3.5-4B"]), Serving(8192, 4, checkpoints=0)) == 0


@pytest.mark.skipif("CPUDEPLOY_MODELS" not in os.environ, reason="CPUDEPLOY_MODELS names no file of models")
def test_every_published_log_is_reproduced_but_for_those_set_aside():
    wrong = []
    for name, known, row in published(Path(os.environ["CPUDEPLOY_MODELS"])):
        serving = Serving(
            -(-row["context"] // row["slots"]),
            row["slots"],
            row["kv_type"],
            ubatch=row.get("n_ubatch", 512),
            unified=row.get("kv_unified", True),
            whole_windows=row.get("swa_full", False) or "pre-iSWA" in json.dumps(row),
            # Nobody had it by default before September 2025.
            flash=row.get("flash_attn", 1) != 0 and "(2024" not in (row.get("build") or ""),
        )
        if row.get("kv_MiB") and kv_bytes(known, serving) / MIB != pytest.approx(row["kv_MiB"], rel=1e-3):
            wrong.append(f"{name}: KV {kv_bytes(known, serving) / MIB:.2f}, logged {row['kv_MiB']}")
        states = state_bytes(known, Serving(row["context"], row["slots"])) / MIB
        if row.get("recurrent_MiB") and states != pytest.approx(row["recurrent_MiB"], rel=1e-3):
            wrong.append(f"{name}: state {states:.2f}, logged {row['recurrent_MiB']}")
        logged = row.get("CPU_compute_MiB")
        found = compute_buffer(known, Tensors(size=0), serving, outputs=serving.batch) / MIB
        if logged and not logged <= found <= 1.2 * logged:
            wrong.append(f"{name}: compute {found:.2f}, logged {logged}")
    assert wrong == []


def published(path: Path) -> Iterator[tuple[str, ModelShape, dict[str, Any]]]:
    """llama.cpp's logs of the file (or of models.json in a folder). Set aside: drafted tokens, whose further
    layers and states are counted apart; an indexer's cache, which differs by fork."""
    for name, model in json.loads((path / "models.json" if path.is_dir() else path).read_text()).items():
        for row in model.get("measured") or ():
            words = json.dumps(row)
            if "llama.cpp" not in row["engine"] or "mtp" in words.lower() or "indexer" in words:
                continue
            try:
                yield name, shape_of(_whole(model), latent=name in LATENT), row
            except CpudeployError:
                continue  # its configuration was not seen whole


def _whole(model: dict[str, Any]) -> dict[str, Any]:
    """A model's configuration; where only its GGUF's linear layers were seen, in the other words."""
    config = {key: value for key, value in model["config"].items() if value is not None}
    ssm = config.get("gguf_ssm")
    if ssm:
        config |= {
            "model_type": "qwen3_5",
            "linear_num_key_heads": ssm["group_count"],
            "linear_num_value_heads": ssm["time_step_rank"],
            "linear_key_head_dim": ssm["state_size"],
            "linear_value_head_dim": ssm["inner_size"] // ssm["time_step_rank"],
            "linear_conv_kernel_dim": ssm["conv_kernel"],
        }
    return config
