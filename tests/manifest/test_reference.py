"""The manifest's page: as committed, complete, and true to the types; its example is a valid manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.manifest import load
from cpudeploy.manifest.reference import page, reference
from cpudeploy.manifest.shape import load_schema
from cpudeploy.steps.network import POOL
from cpudeploy.types.deployment import HuggingFace

from .conftest import Loader, changed
from .test_schemas import keys

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "inventories" / "full.yaml"
SCHEMA = load_schema("inventory")
KEYS = dict(keys(SCHEMA))


def test_the_committed_page_is_what_the_schema_says() -> None:
    head = (ROOT / "docs" / "manifest.head.md").read_text("utf-8")
    committed = (ROOT / "docs" / "manifest.md").read_text("utf-8")
    assert committed == page(head, EXAMPLE.read_text("utf-8"), SCHEMA), "run `make docs`"


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_has_its_place(key: str) -> None:
    heading, entry = f"## `{key}`", f"**`{key}`**"
    assert heading in reference(SCHEMA) or entry in reference(SCHEMA)


@pytest.mark.parametrize("key", sorted(KEYS))
def test_the_example_has_every_setting(key: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(key)}:", EXAMPLE.read_text("utf-8"))


def test_the_example_is_a_valid_manifest_that_shows_precedence() -> None:
    placed = {(p.model, p.host): p for p in load(EXAMPLE).deployment.placements}
    near, far = placed["qwen3-4b", "genoa-1"], placed["qwen3-4b", "small-1"]
    assert (near.context, near.listen, near.parallel) == (8192, "10.20.0.0/16", 4)
    assert (far.context, far.listen, far.parallel) == (8192, "127.0.0.1", 1)
    assert isinstance(near.source, HuggingFace) and isinstance(far.source, HuggingFace)
    assert (near.source.quant, far.source.quant) == ("Q4_K_M", "Q4_0")
    assert placed["one-file", "here"].context == 4096


def test_what_nobody_sets_is_as_the_page_tells(load_text: Loader) -> None:
    deployment = load_text(changed("{path: /w/m.gguf}", "{huggingface: a/b}")).deployment
    host, (model,) = deployment.hosts["a"], deployment.placements
    assert isinstance(model.source, HuggingFace)
    assert _defaults() == {
        "connection": host.connection,
        "retired": host.retired,
        "host_keys": host.ssh.host_keys,
        "sudo": host.sudo.use,
        "use": host.engine,
        "weights": host.weights_dir,
        "task": model.task,
        "revision": model.source.revision,
        "fetch": model.fetch,
        "each": model.each,
        "listen": model.listen,
        "parallel": model.parallel,
        "pool": deployment.network_pool or POOL,
        "cpus": model.cpus,
        "memory": model.memory or "auto",
        "replace": model.replace,
        "drain": model.drain_s,
    }


def _defaults() -> dict[str, Any]:
    """Key → default, as the schema tells it there or in what the key refers to."""
    found = {}
    for key, schema in keys(SCHEMA):
        whole = {**SCHEMA["$defs"].get(schema.get("$ref", "").removeprefix("#/$defs/"), {}), **schema}
        if "default" in whole:
            found[key] = whole["default"]
    return found
