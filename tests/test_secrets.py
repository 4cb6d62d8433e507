"""Secrets: marks that tell a change without a value, and what may be an API key."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
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


@pytest.mark.parametrize("value", ["#comment", "ключ", " xxxx", "xxxx ", "aa\tbb", "Q7z"])
def test_a_key_that_cannot_be_sent_or_hidden_or_would_be_a_comment_is_refused(monkeypatch, tmp_path, value):
    monkeypatch.setenv("KEY", value)
    with pytest.raises(SecretError) as refused:
        Secrets(tmp_path).api_key(SecretRef(kind="from_env", name="KEY"))
    assert value not in str(refused.value)
    assert refused.value.do


@pytest.mark.parametrize("value", ["abcd", "--rf", "a b$`'\"", "sk-" + "x" * 200])
def test_other_keys_are_taken(monkeypatch, tmp_path, value):
    monkeypatch.setenv("KEY", value)
    assert Secrets(tmp_path).api_key(SecretRef(kind="from_env", name="KEY")).reveal() == value


def test_a_file_in_a_home_that_nobody_has_is_told(tmp_path):
    with pytest.raises(SecretError, match="nobody has"):
        Secrets(tmp_path).get(SecretRef(kind="from_file", name="~no-such-user/key"))


def command(line: str) -> SecretRef:
    return SecretRef(kind="from_command", name=line)


def test_a_command_gives_its_one_line_and_no_shell_reads_it(tmp_path):
    (tmp_path / "key").write_text("$HOME `id`; s3cret\n")
    assert Secrets(tmp_path).get(command("cat key")).reveal() == "$HOME `id`; s3cret"
    assert Secrets(tmp_path).get(command("printf %s '$(id)'")).reveal() == "$(id)"


def test_a_command_is_run_once_however_many_ask(tmp_path):
    secrets = Secrets(tmp_path)
    ref = command("sh -c 'echo x >>runs; sleep 0.2; wc -l <runs'")
    with ThreadPoolExecutor(8) as pool:
        values = {secret.reveal() for secret in pool.map(secrets.get, [ref] * 8)}
    assert values == {"1"}


def test_a_command_that_gave_none_is_not_run_for_everybody_who_asks(tmp_path):
    secrets = Secrets(tmp_path)
    for _ in range(2):
        with pytest.raises(SecretError, match="exit code 3"):
            secrets.get(command("sh -c 'echo x >>runs; exit 3'"))
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sh -c 'echo s3cret >&2; exit 3'", "exit code 3"),
        ("no-such-program --password s3cret", "No such file"),
        ("sh -c 'printf \\\\377 #s3cret'", "not UTF-8"),
        ("sh -c 'echo s3cret; echo s3cret'", "one non-empty line"),
        ("true s3cret", "one non-empty line"),
        ("sh -c 's3cret", "no command line"),
        ("", "no command line"),
    ],
)
def test_a_command_that_gives_no_secret_is_told_without_its_words(tmp_path, line, told):
    with pytest.raises(SecretError, match=told) as error:
        Secrets(tmp_path).get(command(line))
    assert "s3cret" not in str(error.value)


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr("cpudeploy.secrets._COMMAND_S", 1)
    with pytest.raises(SecretError, match="within 1 s"):
        Secrets(tmp_path).get(command("sh -c 'sleep 300 & echo $! >child; wait'"))
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    for _ in range(500):
        if not child.exists():
            break
        time.sleep(0.02)
    assert not child.exists()


def test_only_the_first_word_of_a_command_is_shown():
    assert str(command("vault read --token s3cret path")) == "from_command:vault"


def test_of_a_value_that_begins_with_another_nothing_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("SHORT", "abcd")
    monkeypatch.setenv("LONG", "abcd-efgh")
    secrets = Secrets(tmp_path)
    for name in ("SHORT", "LONG"):
        secrets.get(SecretRef(kind="from_env", name=name))
    assert secrets.redact("key abcd-efgh, abcd") == "key [secret], [secret]"


@pytest.mark.parametrize("value", ["\ufeffhf_token", "hf_t\xf6ken", "hf_\x01token", "hf_token "])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(monkeypatch, tmp_path, value):
    monkeypatch.setenv("TOKEN", value)
    with pytest.raises(SecretError) as refused:
        Secrets(tmp_path).token(SecretRef(kind="from_env", name="TOKEN"))
    assert value not in str(refused.value)
    assert refused.value.do
