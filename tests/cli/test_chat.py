"""What a model answers, through a host's connection: words, or an error that says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.cli.chat import answer
from cpudeploy.cli.running import Found, Running, ask_each
from cpudeploy.cli.site import Site
from cpudeploy.errors import ConnectError, CpudeployError, HostError
from cpudeploy.manifest import Manifest
from cpudeploy.secrets import Secrets
from cpudeploy.transport import connect
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Deployment, Host, Ssh
from cpudeploy.types.facts import Publish
from tests.resolve.registries import free_port
from tests.resolve.web_server import Reply, Request, serve

KEY = "planted-key"


def event(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def said(text: str) -> bytes:
    return event(choices=[{"delta": {"content": text}}])


@pytest.fixture
def found(tmp_path: Path) -> Site:
    host = Host(name="here", connection="local", ssh=Ssh(address="here"))
    deployment = Deployment(name="rag", base=str(tmp_path), hosts={"here": host}, backends={}, placements=())
    (tmp_path / "key").write_text(KEY)
    secrets = Secrets(tmp_path)
    site = Site(manifest=Manifest(deployment, {}, {}), deployment=deployment, secrets=secrets)
    site.connections["here"] = connect(host, secrets)
    return site


def instance(port: int, **fields: Any) -> Running:
    common = {"host": "here", "model": "m", "container": "rag_m_0", "running": True, "served_name": "m"}
    place = Publish(address="127.0.0.1", port=port, container_port=8080)
    return Running(
        **{**common, "publish": place, "api_key": SecretRef(kind="from_file", name="key"), **fields}
    )


def ask(site: Site, reply: Callable[[Request], Reply]) -> list[str]:
    with serve(reply) as server:
        return list(answer(site, instance(int(server.address.rpartition(":")[2])), "hello", 8))


def test_the_words_come_as_they_are_sent_and_the_key_goes_along(found: Site):
    def reply(request: Request) -> Reply:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        return Reply(200, said("Good ") + event(choices=[]) + said("day") + b"data: [DONE]\n\n")

    assert ask(found, reply) == ["Good ", "day"]


def test_a_key_that_is_not_taken_is_told_as_that(found: Site):
    with pytest.raises(HostError, match="does not take the key") as error:
        ask(found, lambda _: Reply(401, b"{}"))
    assert "cpudeploy apply" in error.value.do
    assert error.value.code == 1


def test_what_a_model_says_in_refusing_is_shown_without_the_key(found: Site):
    with pytest.raises(HostError, match="answered 500") as error:
        ask(found, lambda _: Reply(500, f"no \x1b[31m {KEY}".encode()))
    assert KEY not in str(error.value)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (event(error={"message": "context is full", "code": 500}), "context is full"),
        (event(error="broken"), "broken"),
        (b"data: [1]\n\n", "no event"),
        (b"data: {nonsense\n\n", "no event"),
    ],
)
def test_an_error_within_the_stream_ends_it_with_an_error(found: Site, sent: bytes, says: str):
    with pytest.raises(HostError, match=says):
        ask(found, lambda _: Reply(200, said("Well, ") + sent))


def test_a_model_that_does_not_run_is_not_asked(found: Site):
    with pytest.raises(HostError, match="not running"):
        list(answer(found, instance(free_port(), running=False), "hello", 8))


def test_one_that_fails_keeps_no_other_from_being_asked(found: Site, capsys: pytest.CaptureFixture[str]):
    asked = []

    def ask_one(one: Running) -> None:
        asked.append(one.container)
        if one.container == "first":
            list(answer(found, one, "hello", 8))

    port = free_port()
    both = (instance(port, container="first"), instance(port, container="second"))
    assert ask_each(Found(both, {}), ask_one) == 1
    assert asked == ["first", "second"]
    assert "here: error: " in capsys.readouterr().err


def test_hosts_without_an_instance_are_told_and_decide_the_exit_code(capsys: pytest.CaptureFixture[str]):
    away, mute = ConnectError("no answer", do="check the network"), CpudeployError("tells nothing")
    assert ask_each(Found((), {"away": away, "mute": mute}), lambda _: None) == 4
    assert capsys.readouterr().err.splitlines() == [
        "away: unreachable: no answer; do: check the network",
        "mute: error: tells nothing",
    ]
