"""Marks of secrets: enough to see a change, not enough to see a value."""

from __future__ import annotations

import pytest

from cpudeploy.secrets import mark, same


def test_a_mark_knows_its_value_and_no_other() -> None:
    marked = mark("hunter2")
    assert same("hunter2", marked)
    assert not same("hunter3", marked)
    assert "hunter2" not in marked


def test_two_marks_of_one_value_differ() -> None:
    assert mark("hunter2") != mark("hunter2")


@pytest.mark.parametrize("other", ["", "scrypt:", "scrypt:!!:x", "md5:abcd:abcd", "hunter2"])
def test_what_is_no_mark_never_fits(other: str) -> None:
    assert not same("hunter2", other)
