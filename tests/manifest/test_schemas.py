"""The schemas are valid, explain themselves, and say the same as the types and the merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from cpudeploy.manifest.merge import HOST_KEYS, MODEL_KEYS
from cpudeploy.manifest.shape import load_schema
from cpudeploy.types.playbook import (
    Argument,
    ContainerTemplate,
    CpuNeed,
    HealthTemplate,
    Parameter,
    Playbook,
    Refusal,
)
from cpudeploy.types.release import Check, Diagnosis

INVENTORY = load_schema("inventory")
PLAYBOOK = load_schema("playbook")


@pytest.mark.parametrize("schema", [INVENTORY, PLAYBOOK], ids=["inventory", "playbook"])
def test_the_schema_is_valid_draft_2020_12(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def keys(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every documented key of a schema."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from properties.items()
        for inner in schema.values():
            yield from keys(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from keys(inner)


@pytest.mark.parametrize("schema", [INVENTORY, PLAYBOOK], ids=["inventory", "playbook"])
def test_every_key_can_finish_an_error_sentence(schema: dict[str, Any]) -> None:
    for name, key in keys(schema):
        target = schema["$defs"][key["$ref"].removeprefix("#/$defs/")] if "$ref" in key else key
        assert "title" in target or "const" in target, name


@pytest.mark.parametrize("name", ["url", "webAddress", "secret", "apiKey", "sudo", "localPath"])
def test_what_may_be_secret_is_quiet(name: str) -> None:
    schema = INVENTORY["$defs"].get(name) or INVENTORY["$defs"]["source"]["properties"][name]
    assert schema["x-quiet"]


def test_the_same_settings_may_stand_on_defaults_groups_and_hosts() -> None:
    defaults = set(INVENTORY["properties"]["defaults"]["properties"])
    host = set(INVENTORY["$defs"]["host"]["properties"])
    group = set(INVENTORY["$defs"]["group"]["properties"])
    assert defaults == {*HOST_KEYS, *MODEL_KEYS}
    assert group == defaults | {"hosts", "groups"}
    assert host == defaults | {"address", "port", "user", "connection", "retired"}


def test_an_entry_of_on_may_override_every_setting_of_a_model() -> None:
    model = set(INVENTORY["properties"]["models"]["additionalProperties"]["properties"])
    entry = set(INVENTORY["$defs"]["placement"]["properties"])
    assert model == {*MODEL_KEYS, "port", "served_name", "on"}
    assert entry == model - {"on"} | {"host", "hosts"}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Playbook, PLAYBOOK),
        (Argument, PLAYBOOK["$defs"]["argument"]),
        (Parameter, PLAYBOOK["$defs"]["parameter"]),
        (CpuNeed, PLAYBOOK["$defs"]["cpuNeed"]),
        (Refusal, PLAYBOOK["$defs"]["refusal"]),
        (ContainerTemplate, PLAYBOOK["$defs"]["container"]),
        (HealthTemplate, PLAYBOOK["$defs"]["health"]),
        (Check, PLAYBOOK["$defs"]["check"]),
        (Diagnosis, PLAYBOOK["$defs"]["diagnosis"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_the_playbook_schema_has_the_fields_of_the_type(kind: Any, schema: dict[str, Any]) -> None:
    assert set(schema["properties"]) == set(kind.__struct_fields__)
