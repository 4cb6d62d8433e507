from __future__ import annotations

from typing import Any

import pytest

from cpudeploy.resolve.secret_marks import held_states, key_errors, secret_states
from cpudeploy.secrets import Secrets, mark, same
from cpudeploy.types.base import SecretRef
from cpudeploy.types.facts import Mark
from cpudeploy.types.safety import Hold

from .builders import container, deployment, facts, placement
from .registries import PASSWORD

KEY = SecretRef(kind="from_env", name="TEST_PASSWORD")
PATH = "/var/lib/cpudeploy/rag/secrets/rag_chat_0/api_key"


def test_a_mark_tells_its_secret_from_others_and_shows_neither() -> None:
    known = mark("hunter2")
    assert same("hunter2", known)
    assert not same("hunter3", known)
    assert known.startswith("scrypt:") and "hunter" not in known


def test_the_same_secret_has_another_mark_each_time() -> None:
    assert mark("hunter2") != mark("hunter2")
    assert mark("hunter2", b"salt") == mark("hunter2", b"salt")


@pytest.mark.parametrize("text", ["", "x", "scrypt:!!:x", "md5:YQ==:x", "scrypt:YQ==", "a:b:c:d"])
def test_what_is_no_mark_is_a_mark_of_nothing(text: str) -> None:
    assert not same("x", text)


def states(secrets: Secrets, releases: Any, *containers: Any, **fields: Any) -> dict[str, str]:
    wanted = deployment(placement(api_key=KEY, **fields))
    return dict(
        secret_states(wanted, {"h1": facts(releases={"rag": releases}, containers=containers)}, secrets)
    )


def running(release: str, **fields: Any) -> Any:
    its = Mark(schema=1, deployment="rag", model="chat", instance=fields.pop("instance", 0), release=release)
    return container(its, **fields)


def test_a_secret_is_compared_with_the_release_that_runs(secrets: Secrets) -> None:
    releases = {
        "0001-a": {"secret_marks": {PATH: mark("before")}},
        "0002-b": {"secret_marks": {PATH: mark(PASSWORD)}},
        "0003-c": {"secret_marks": {PATH: mark("never started")}},
    }
    key = "h1/rag/chat/0/api_key"
    assert states(secrets, releases, running("0002-b")) == {key: "same"}
    assert states(secrets, releases, running("0001-a")) == {key: "changed"}
    assert states(secrets, releases, running("0001-a"), running("0002-b")) == {key: "same"}


def test_the_newest_release_is_the_one_with_the_highest_number(secrets: Secrets) -> None:
    releases = {
        "9999-a": {"secret_marks": {PATH: mark("before")}},
        "10000-b": {"secret_marks": {PATH: mark(PASSWORD)}},
    }
    found = states(secrets, releases, running("9999-a"), running("10000-b"))
    assert found == {"h1/rag/chat/0/api_key": "same"}


def test_what_never_passed_its_gate_does_not_count_while_something_did(secrets: Secrets) -> None:
    """It is undone, and what serves then has its own secret."""
    releases = {
        "0001-a": {"secret_marks": {PATH: mark("before")}},
        "0002-b": {"secret_marks": {PATH: mark(PASSWORD)}},
    }
    proven = running("0001-a", restart_policy="unless-stopped")
    unproven = running("0002-b", restart_policy="no")
    key = "h1/rag/chat/0/api_key"
    assert states(secrets, releases, proven, unproven) == {key: "changed"}
    assert states(secrets, releases, unproven) == {key: "same"}


def test_every_running_instance_has_its_own_state(secrets: Secrets) -> None:
    second = PATH.replace("chat_0", "chat_1")
    releases = {"0001-a": {"secret_marks": {PATH: mark(PASSWORD), second: mark("other")}}}
    found = states(secrets, releases, running("0001-a"), running("0001-a", instance=1))
    assert found == {"h1/rag/chat/0/api_key": "same", "h1/rag/chat/1/api_key": "changed"}


def test_one_that_is_stopped_would_start_with_its_old_secret(secrets: Secrets) -> None:
    releases = {"0001-a": {"secret_marks": {PATH: mark("before")}}}
    assert states(secrets, releases, running("0001-a", running=False)) == {"h1/rag/chat/0/api_key": "changed"}


def test_what_is_not_there_has_nothing_to_be_compared_with(secrets: Secrets) -> None:
    assert states(secrets, {"0001-a": {}}) == {}
    assert states(secrets, {}, container(None)) == {}


def test_a_missing_secret_is_told_and_is_nothing_to_the_others(secrets: Secrets) -> None:
    absent = SecretRef(kind="from_env", name="NO_SUCH_VARIABLE")
    wanted = deployment(placement(api_key=absent), placement(model="other", api_key=KEY))
    told = key_errors(wanted, {"h1": facts()}, secrets)
    assert list(told) == ["chat@h1"]
    assert "NO_SUCH_VARIABLE" in told["chat@h1"].what
    assert key_errors(wanted, {}, secrets) == {}  # nobody it would be sent to
    others = container(Mark(schema=1, deployment="rag", model="other", instance=0, release="0001-a"))
    hosts = {"h1": facts(containers=(running("0001-a"), others))}
    assert secret_states(wanted, hosts, secrets) == {"h1/rag/other/0/api_key": "unknown"}
    assert held_states(wanted, hosts, secrets) == {}


@pytest.mark.parametrize(
    "releases",
    [{}, {"0001-a": {}}, {"0001-a": None}, None, []],
)
def test_a_lost_release_or_mark_makes_it_unknown(secrets: Secrets, releases: Any) -> None:
    assert states(secrets, releases, running("0001-a")) == {"h1/rag/chat/0/api_key": "unknown"}


@pytest.mark.parametrize(
    ("marks", "state"),
    [({PATH: mark(PASSWORD)}, "same"), ({PATH: mark("before")}, "changed"), ({}, "unknown")],
)
def test_what_is_held_is_compared_with_the_secret_it_failed_with(
    secrets: Secrets, marks: dict[str, str], state: str
) -> None:
    hold = Hold(wanted="w", release="0002-b", at="", what="it failed", secret_marks=marks)
    wanted = deployment(placement(api_key=KEY))
    assert held_states(wanted, {"h1": facts(held={"rag": {"rag_chat_0": hold}})}, secrets) == {
        "h1/rag/chat/0/api_key": state
    }
    assert held_states(wanted, {"h1": facts(held={"rag": {"rag_other_0": hold}})}, secrets) == {}
