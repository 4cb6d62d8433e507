"""What real engines print when they fail, before their playbooks' rules: cause and change, in one sentence each.

`logs/` holds what they printed: vLLM 0.32 started as its playbook starts it, llama-server of build 11434.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.execute.cause import last_words
from cpudeploy.execute.failure import diagnose
from tests.factories import playbooks

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
    told = diagnose(playbooks()["llama-cpp"].diagnose, 1, False, said(f"llama-b11434/{log}"))
    assert cause in told[0] and do in told[1], told


def test_a_llama_server_that_hangs_says_what_it_was_at() -> None:
    log = said("llama-b11434/hangs")
    assert diagnose(playbooks()["llama-cpp"].diagnose, None, False, log) == ("", "")
    assert last_words(log) == "srv load_model: loading model 'tiny.gguf'"
