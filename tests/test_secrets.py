"""Secrets: marks that tell a change without a value, and what may be an API key."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.errors import SecretError
from cpudeploy.secrets import Secrets, mark, same
from cpudeploy.types.base import SecretRef


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


@pytest.mark.parametrize("value", ["#comment", "ключ", " x", "x ", "a\tb"])
def test_a_key_that_cannot_be_sent_or_would_be_a_comment_is_refused(monkeypatch, tmp_path, value):
    monkeypatch.setenv("KEY", value)
    with pytest.raises(SecretError) as refused:
        Secrets(tmp_path).api_key(SecretRef(kind="from_env", name="KEY"))
    assert value not in str(refused.value)
    assert refused.value.do


@pytest.mark.parametrize("value", ["a", "-rf", "a b$`'\"", "sk-" + "x" * 200])
def test_other_keys_are_taken(monkeypatch, tmp_path, value):
    monkeypatch.setenv("KEY", value)
    assert Secrets(tmp_path).api_key(SecretRef(kind="from_env", name="KEY")).reveal() == value


def test_a_file_in_a_home_that_nobody_has_is_told(tmp_path):
    with pytest.raises(SecretError, match="nobody has"):
        Secrets(tmp_path).get(SecretRef(kind="from_file", name="~no-such-user/key"))


def from_command(line: str, folder: Path) -> str:
    return Secrets(folder).get(SecretRef(kind="from_command", name=line)).reveal()


def test_a_command_runs_in_the_manifests_folder_without_a_shell(tmp_path):
    (tmp_path / "key").write_text("a $HOME b\n")
    assert from_command("cat key", tmp_path) == "a $HOME b"
    assert from_command("echo '$HOME' '|' cat", tmp_path) == "$HOME | cat"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("false hunter2", "false ended with exit code 1"),
        ("no-such-program hunter2", "no-such-program can't be run: No such file"),
        ("echo 'hunter2", "not a command line"),
        ("", "can't be run"),
        ("true", "one non-empty line"),
        (r"printf 'a\nb'", "one non-empty line"),
        ("printf '\\377hunter2'", "no UTF-8 text"),
    ],
)
def test_a_command_that_tells_no_secret_is_named_without_its_arguments(tmp_path, line, says):
    with pytest.raises(SecretError, match=says) as failed:
        from_command(line, tmp_path)
    shown = f"{failed.value}"
    assert "hunter2" not in shown
