"""Answers against checks of a health gate."""

from __future__ import annotations

import pytest

from cpudeploy.execute.check import differs
from cpudeploy.types.release import Check

MODELS = b'{"data": [{"id": "a"}, {"id": "qwen", "ready": true}], "n": 2}'


@pytest.mark.parametrize(
    ("pointer", "equals"),
    [
        (None, None),
        ("/data/*/id", "qwen"),
        ("/data/1/ready", "true"),
        ("/n", "2"),
        ("/data/0", None),
    ],
)
def test_what_satisfies_a_check(pointer: str | None, equals: str | None) -> None:
    assert differs(Check(name="c", path="/", pointer=pointer, equals=equals), 200, MODELS) == ""


@pytest.mark.parametrize(
    ("pointer", "equals", "told"),
    [
        ("/data/*/id", "other", "a, qwen at /data/*/id instead of other"),
        ("/data/7/id", "a", "nothing at /data/7/id instead of a"),
        ("/missing", None, "nothing at /missing"),
    ],
)
def test_what_differs_is_told(pointer: str, equals: str | None, told: str) -> None:
    assert differs(Check(name="c", path="/", pointer=pointer, equals=equals), 200, MODELS) == told


def test_another_status_is_told_with_what_was_said() -> None:
    said = b'{"error": {"message": "Loading model"}}'
    assert "HTTP 503" in differs(Check(name="c", path="/"), 503, said)
    assert "Loading model" in differs(Check(name="c", path="/"), 503, said)


def test_an_answer_that_is_not_json_is_no_answer() -> None:
    assert "not JSON" in differs(Check(name="c", path="/", pointer="/a"), 200, b"<html>")


def test_a_null_is_not_there() -> None:
    assert differs(Check(name="c", path="/", pointer="/a"), 200, b'{"a": null}') != ""


def test_an_answer_nested_without_end_is_no_answer() -> None:
    assert "not JSON" in differs(Check(name="c", path="/", pointer="/a"), 200, b"[" * 100_000)
