"""Release documents of every version there was are read, and mean what they meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.types.base import to_json
from cpudeploy.types.release import (
    RELEASE_SCHEMA,
    by_age,
    document_schema,
    identity,
    read_release,
    release_number,
)

RECORDED = sorted((Path(__file__).parent / "data").glob("release-*.json"))


def document(schema: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (Path(__file__).parent / "data" / f"release-{schema}.json").read_text()
    )
    return found


def test_one_of_each_version_is_recorded():
    assert [document_schema(json.loads(path.read_text())) for path in RECORDED] == list(
        range(1, RELEASE_SCHEMA)
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_what_was_recorded_is_kept_in_the_form_of_today(path: Path):
    recorded = json.loads(path.read_text())
    found = read_release(recorded)
    assert found is not None
    assert found.schema == RELEASE_SCHEMA
    data = msgspec.json.decode(to_json(found))
    assert all(data[key] == value for key, value in recorded.items() if key not in ("schema", "instances"))
    before, after = recorded["instances"]["rag_smol_0"], data["instances"]["rag_smol_0"]
    assert {key: after["container"][key] for key in before["container"]} == before["container"]
    assert read_release(data) == found


@pytest.mark.parametrize(
    "changes",
    [{"schema": RELEASE_SCHEMA + 1}, {"schema": 0}, {"schema": True}, {"schema": "1"}, {"instances": 3}],
)
def test_what_is_newer_or_damaged_is_lost(changes: dict[str, Any]):
    assert read_release({**document(), **changes}) is None


@pytest.mark.parametrize("broken", [None, [], "x", {}, {"unknown": "not JSON"}])
def test_what_is_no_release_is_none(broken: Any):
    assert read_release(broken) is None


def test_ids_are_in_the_order_of_their_age():
    assert by_age(["0010-a", "0002-b", "10000-c", "9999-d"]) == ["0002-b", "0010-a", "9999-d", "10000-c"]
    assert release_number("0007-1a2b3c4d") == 7
    assert release_number("no-number") == 0


def test_an_instance_is_another_by_what_decides_whether_it_serves():
    found = read_release(document())
    assert found is not None
    one = found.instances["rag_smol_0"]
    other = msgspec.structs.replace(one, container=msgspec.structs.replace(one.container, image="other"))
    assert identity(one) != identity(other)
    assert identity(one) == identity(msgspec.structs.replace(one, backend="renamed"))


def test_a_hold_of_an_earlier_version_is_still_on_what_it_was_on():
    """Written on hosts by versions before checks had `instead`: forgotten, what failed would be tried again."""
    found = read_release(document())
    assert found is not None
    one = found.instances["rag_smol_0"]
    assert identity(one) == "ca0ab1f09ccf531d54b966f87ab51720454e69d61925e8dd23d71f11d6f7ecaf"
    [first, *others] = one.gate.checks
    other = msgspec.structs.replace(first, instead=first, instead_when="x")
    gate = msgspec.structs.replace(one.gate, checks=(other, *others))
    assert identity(msgspec.structs.replace(one, gate=gate)) != identity(one)
