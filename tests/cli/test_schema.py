"""Schemas for editors: standard words only, valid, and true to what cpudeploy reads and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cpudeploy.errors import ManifestError, Problem
from cpudeploy.plan import make_plan
from cpudeploy.report.outcome_text import outcome_data
from cpudeploy.report.schemas import WRITTEN, written_schema
from cpudeploy.report.written import error_data, plan_data
from cpudeploy.types.base import to_data
from cpudeploy.types.event import Progress
from tests.factories import deployment, facts, placement, playbooks, resolved
from tests.report.samples import sample_outcome, sample_plan

from .test_commands import cpudeploy

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *("inventory", "include", "playbook"),
    *("plan", "facts", "resolved", "endpoints", "outcome", "event", "error"),
)
INVENTORIES = sorted((ROOT / "inventories").glob("*.yaml"))


class Yaml12(yaml.SafeLoader):
    """As an editor reads YAML: `on` is a key like any other."""


Yaml12.yaml_implicit_resolvers = {
    first: [(tag, words) for tag, words in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", yaml.resolver.re.compile("true|false"), ["t", "f"])


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    return {name: json.loads(cpudeploy("schema", name).stdout) for name in DOCUMENTS}


def words(part: Any) -> set[str]:
    """Every keyword of a schema, names of properties and of definitions left out."""
    found: set[str] = set()
    for key, value in part.items() if isinstance(part, dict) else ():
        found.add(key)
        if key in ("properties", "$defs", "dependentRequired"):
            for inner in value.values():
                found |= words(inner)
        elif key not in ("examples", "default", "enum", "const"):
            found |= words(value)
    for item in part if isinstance(part, list) else ():
        found |= words(item)
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_valid_and_holds_standard_words_only(schemas: dict[str, Any], name: str) -> None:
    schema = schemas[name]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    standard = {
        *(
            "$schema",
            "$id",
            "$ref",
            "$defs",
            "title",
            "description",
            "default",
            "examples",
            "type",
            "enum",
            "const",
        ),
        *(
            "properties",
            "required",
            "additionalProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
        ),
        *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "anyOf", "dependentRequired"),
        *("pattern", "minLength", "minimum", "maximum", "maxLength", "exclusiveMinimum", "format"),
        *("patternProperties", "allOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"),
    }
    assert words(schema) - standard == set()


def test_every_document_is_told_of_in_the_help() -> None:
    said = cpudeploy("schema", "--help").stdout
    assert [name for name in DOCUMENTS if f"  {name} " not in said] == []


def test_without_a_name_it_is_the_manifests(schemas: dict[str, Any]) -> None:
    assert json.loads(cpudeploy("schema").stdout) == schemas["inventory"]


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.name)
def test_every_shipped_inventory_is_accepted(schemas: dict[str, Any], path: Path) -> None:
    data = yaml.load(path.read_text("utf-8"), Yaml12)
    jsonschema.validate(data, schemas["inventory"], jsonschema.Draft202012Validator)
    assert cpudeploy("validate", str(path)).returncode == 0


def test_a_part_may_leave_out_what_a_manifest_must_have(schemas: dict[str, Any]) -> None:
    part = yaml.load((ROOT / "inventories/site/common.yaml").read_text("utf-8"), Yaml12)
    jsonschema.validate(part, schemas["include"], jsonschema.Draft202012Validator)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(part, schemas["inventory"], jsonschema.Draft202012Validator)


@pytest.mark.parametrize("path", sorted((ROOT / "playbooks").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_playbook_is_accepted(schemas: dict[str, Any], path: Path) -> None:
    data = yaml.load(path.read_text("utf-8"), Yaml12)
    jsonschema.validate(data, schemas["playbook"], jsonschema.Draft202012Validator)


def test_what_is_written_is_as_its_schema_says(schemas: dict[str, Any]) -> None:
    one = placement()
    wanted, found, known = deployment(one), facts(), resolved(one)
    plan = make_plan(wanted, playbooks(), {"one": found}, known, origin="test")
    documents = {
        "facts": to_data(found),
        "resolved": to_data(known),
        "plan": plan_data(plan),
        "outcome": outcome_data(sample_outcome(), sample_plan()),
        "error": error_data(ManifestError([Problem("inventory.yaml:1:1", "wrong", "mend it")])),
        "event": to_data(Progress(host="one", change="c", operation="o", done=1, total=2)),
    }
    for name, value in documents.items():
        data = json.loads(json.dumps(value))
        jsonschema.validate(data, schemas[name], jsonschema.Draft202012Validator)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**data, "more": 1}, schemas[name], jsonschema.Draft202012Validator)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_committed_schema_is_what_the_types_say(name: str) -> None:
    committed = (ROOT / "schemas" / f"{name}.schema.json").read_text("utf-8")
    assert committed == json.dumps(written_schema(name), indent=2, ensure_ascii=False) + "\n", (
        "run `make docs`"
    )


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_every_part_of_a_document_that_is_read_is_told_of(schemas: dict[str, Any], name: str) -> None:
    schema = schemas[name]
    assert schema["title"]
    root = schema["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    assert root.get("description") or root.get("anyOf")


def test_what_stands_below_a_field_in_the_source_stands_in_the_schema(schemas: dict[str, Any]) -> None:
    plan = schemas["plan"]["$defs"]["PlanDocument"]["properties"]
    assert "secrets resolve against" in plan["base"]["description"]
    assert "carried out once" in plan["saved"]["description"]


def test_an_unknown_document_is_told_with_those_there_are() -> None:
    done = cpudeploy("schema", "inventori")
    assert done.returncode == 64
    assert "'inventory'" in done.stderr
