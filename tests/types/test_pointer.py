"""JSON pointers with and without a star."""

from __future__ import annotations

import pytest

from cpudeploy.types.pointer import lookup, values

MODELS = {"data": [{"id": "a"}, {"id": "b"}], "*": {"/~": 1}, "null": None}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", [MODELS]),
        ("/data/1/id", ["b"]),
        ("/data/*/id", ["a", "b"]),
        ("/data/*/missing", []),
        ("/data/2", []),
        ("/data/-1", []),
        ("/null", [None]),
        ("/null/deeper", []),
        ("/*/~1~0", [1]),
    ],
)
def test_all_values_at_a_pointer(pointer: str, found: list[object]) -> None:
    assert values(MODELS, pointer) == found


def test_stars_inside_stars_are_all_walked() -> None:
    assert values([[1, 2], [3]], "/*/*") == [1, 2, 3]


def test_one_value_or_none_is_looked_up() -> None:
    assert lookup(MODELS, "/data/0/id") == "a"
    assert lookup(MODELS, "/data/9/id") is None


@pytest.mark.parametrize("walk", [lookup, values])
def test_what_does_not_begin_with_a_slash_is_no_pointer(walk: object) -> None:
    with pytest.raises(ValueError, match="not a JSON pointer"):
        walk(MODELS, "data")  # type: ignore[operator]
