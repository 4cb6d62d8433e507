"""`explain` as its user meets it: on recorded facts, so that no host is needed."""

from __future__ import annotations

import json

import pytest

from .test_commands import cpudeploy

GENOA = ("-i", "inventories/one-genoa.yaml", "--facts", "inventories/facts")


def test_every_number_of_a_model_with_its_reason():
    done = cpudeploy("explain", "gemma4-e2b", *GENOA)
    assert done.returncode == 0, done.stderr
    for word in ("cpus", "threads", "context", "parallel", "memory", "weights", "KV cache", "in all", "port"):
        assert word in done.stdout
    assert "inventories/one-genoa.yaml:" in done.stdout
    assert "qwen" not in done.stdout


def test_as_json_the_parts_add_up():
    done = cpudeploy("explain", *GENOA, "--format", "json")
    told = json.loads(done.stdout)
    models = ["qwen3-06b", "qwen35-08b", "gemma4-e2b", "qwen3-06b-vllm", "qwen35-08b-vllm"]
    assert [each["model"] for each in told["instances"]] == models
    for each in told["instances"]:
        allocation = each["allocation"]
        assert sum(allocation["need"].values()) <= allocation["memory"]
        assert each["written"]["context"].startswith("inventories/one-genoa.yaml:")
    assert told["untold"] == {}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("gemma", *GENOA), 64, "no model gemma"),
        (("inventories/one-genoa.yaml",), 64, "give a manifest with -i inventories/one-genoa.yaml"),
        ((*GENOA, "--ask-sudo-pass"), 64, "exclude each other"),
        (("-i", "inventories/two-servers.yaml", "--facts", "inventories/facts"), 1, "no facts of it are recorded"),
    ],
)  # fmt: skip
def test_what_can_t_be_told(arguments, code, says):
    done = cpudeploy("explain", *arguments)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
