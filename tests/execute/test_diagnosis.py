"""What real engines print when they fail, before their playbooks' rules: cause and change, in one sentence each.

`logs/` holds what they printed: vLLM 0.32 started as its playbook starts it, llama-server of build 11434.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.execute.cause import last_words
from cpudeploy.execute.failure import diagnose
from cpudeploy.manifest import load_playbook

LOGS = Path(__file__).parent / "logs"


def said(log: str) -> list[str]:
    return (LOGS / f"{log}.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("log", "cause", "do"),
    [
        ("no-such-file", "the model file /models/x.gguf is not in the container", "source.files"),
        ("truncated", "truncated or corrupt", "check the source"),
        ("not-gguf", "not GGUF", "source.quant"),
        ("unknown-architecture", "architecture, qwenx", "newer server-bNNNN image"),
        ("missing-tensor", "tensor 'blk.2.attn_q.weight' not found", "another conversion"),
        ("bad-projector", "the projector truncated.gguf can't be read", "source.mmproj"),
        ("unknown-flag", "does not know --nosuch", "take it out of args"),
        ("bad-value", "-ctk can't be what it was given: Unsupported cache type: q9", "correct it in args"),
        ("port-taken", "the port inside the container is taken", "take --port out of args"),
        ("kv-too-large", "not enough memory for the KV cache", "lower context or parallel"),
    ],
)
def test_llama_server(log: str, cause: str, do: str) -> None:
    told = diagnose(load_playbook("llama-cpp", ()).diagnose, 1, False, said(f"llama-b11434/{log}"))
    assert cause in told[0] and do in told[1], told


def test_a_llama_server_that_hangs_says_what_it_was_at() -> None:
    log = said("llama-b11434/hangs")
    assert diagnose(load_playbook("llama-cpp", ()).diagnose, None, False, log) == ("", "")
    assert last_words(log) == "srv load_model: loading model 'tiny.gguf'"


VLLM = [
    ("no-such-folder", 1, "a file of the model is not in the container", "config.json"),
    ("no-such-repository-offline", 1, "a file of the model is not in the container", "config.json"),
    (
        "kv-too-large",
        1,
        "the KV cache is to have 400.0 GiB, and 20.45 GiB are free",
        "lower context or parallel",
    ),
    ("kv-not-whole", 1, "given 1.5; VLLM_CPU_KVCACHE_SPACE is in whole GiB", "whole number"),
    ("kv-zero", 1, "the KV cache was given no memory", "1 GiB or more"),
    ("length-over-kv", 1, "does not hold one request of 4096 tokens", "lower context to 256"),
    (
        "length-over-model",
        1,
        "context is 100000, and the model was trained for 4096",
        "lower context to 4096",
    ),
    ("bad-dtype", 2, "--dtype can't be what it was given: invalid choice: 'bf16x'", "correct it in args"),
    ("unknown-flag", 2, "does not know --swap-spacer 4", "take it out of args"),
    ("unknown-architecture", 1, "architecture, qwen9", "newer vllm/vllm-openai-cpu image"),
]


@pytest.mark.parametrize(("log", "exit_code", "cause", "do"), VLLM)
def test_vllm(log: str, exit_code: int, cause: str, do: str) -> None:
    told = diagnose(load_playbook("vllm-cpu", ()).diagnose, exit_code, False, said(f"vllm-0.32/{log}"))
    assert cause in told[0] and do in told[1], told


@pytest.mark.parametrize("log", [log for log, *_ in VLLM])
def test_without_a_rule_the_exception_that_matters_is_told(log: str) -> None:
    """Never the server's, which only saw another process fail, and never a warning."""
    cause, _ = diagnose((), 1, False, said(f"vllm-0.32/{log}"))
    assert cause
    assert not any(
        noise in cause for noise in ("root cause above", "Worker failed", "ulimit", "Warning", "Triton")
    )


@pytest.mark.parametrize(
    ("line", "cause", "do"),
    [
        (
            "(EngineCore_DP0 pid=9) ValueError: To serve at least one request with the models's max seq len (8192), "
            "(1.0 GiB KV cache is needed, which is larger than the available KV cache memory (0.5 GiB). Based on the "
            "available memory, the estimated maximum model length is 4096. Try increasing",
            "one request of 8192 tokens",
            "lower context to 4096",
        ),
        (
            "ValueError: To serve at least one request with the models's max seq len (8192), (1.0 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (0.0 GiB). Try increasing",
            "one request of 8192 tokens, which takes 1.0 GiB",
            "lower context",
        ),
        (
            "ValueError: Available memory on node 0 (11.5/15.6 GiB) on startup is less than desired CPU memory "
            "utilization (0.92, 14.4 GiB). Decrease --gpu-memory-utilization",
            "it wants 14.4 GiB, and 11.5 GiB are free",
            "VLLM_CPU_KVCACHE_SPACE",
        ),
        (
            "AssertionError: Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers. Allowed NUMA nodes",
            "fewer NUMA nodes than ranks",
            "cpus",
        ),
        (
            "RuntimeError: Failed to infer device type, please set the environment variable",
            "built for GPUs",
            "cpu",
        ),
    ],
)
def test_what_vllm_0_21_says_in_words_of_its_own(line: str, cause: str, do: str) -> None:
    told = diagnose(load_playbook("vllm-cpu", ()).diagnose, 1, False, [line])
    assert cause in told[0] and do in told[1], told
