"""The gate before a server that answers wrongly, asks for another key, hangs, or can less than was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.execute import EngineClient
from cpudeploy.execute.failure import ModelNotServing
from cpudeploy.execute.gate import HealthGate
from cpudeploy.secrets import Secrets
from cpudeploy.types.operation import Wait
from cpudeploy.types.outcome import Failure
from cpudeploy.types.release import Check, Diagnosis, Gate
from tests.execute.engine_server import EngineServer, Here, Request, engine_serving

NAME = "rag_tiny_0"
LOADED = Check(name="loaded", path="/health", auth=False)
LISTED = Check(name="listed", path="/v1/models", pointer="/data/*/id", equals="tiny")
ANSWERS = Check(
    name="answers",
    method="POST",
    path="/v1/chat",
    body="{}",
    pointer="/choices/0/message",
    instead_when="chat template",
    instead=Check(
        name="completes", method="POST", path="/v1/completions", body="{}", pointer="/choices/0/text"
    ),
)


class Model:
    """A model and its engine at one port. `log`: what its container has printed."""

    def __init__(self, server: EngineServer, folder: Path) -> None:
        self.here = Here(Secrets(folder), server.port)
        self.engine = EngineClient(self.here.dial_engine)
        self.port = server.port
        self.log = ""
        self.alive: list[str] = []
        server.answers = {"json": lambda request: request.json(self.inspected()), "logs": self._logs}
        self.answers = server.answers

    def inspected(self) -> dict[str, Any]:
        ports = {f"{self.port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(self.port)}]}
        return {
            "Name": f"/{NAME}",
            "State": {"Status": "running", "Running": True, "ExitCode": 0},
            "NetworkSettings": {"Ports": ports, "Networks": {}},
        }

    def answer(self, path: str, status: int, document: Any) -> None:
        self.answers[path] = lambda request: request.json(document, status)

    def prove(
        self, *checks: Check, key: str | None = None, rules: tuple[Diagnosis, ...] = (), s: int = 60
    ) -> None:
        gate = Gate(port=self.port, stable_s=0, deadline_s=s, checks=checks)
        wait = Wait(
            id="gate",
            deadline_s=s,
            container=NAME,
            address="127.0.0.1",
            port=self.port,
            gate=gate,
            diagnose=rules,
        )
        dial = self.here.dial_tcp
        HealthGate(
            self.engine, dial, wait, key, self.alive.append, lambda text: text, lambda _: None
        ).pass_or_raise()

    def failure(self, *checks: Check, **how: Any) -> Failure:
        with pytest.raises(ModelNotServing) as error:
            self.prove(*checks, **how)
        return error.value.failure

    def _logs(self, request: Request) -> None:
        line = self.log.encode()
        request.raw(b"\x01\0\0\0" + len(line).to_bytes(4, "big") + line if line else b"")


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with engine_serving() as server:
        model = Model(server, tmp_path)
        model.answer("health", 200, {})
        model.answer("models", 200, {"data": [{"id": "tiny"}]})
        yield model
        model.engine.close()


def in_turn(*answers: Callable[[Request], None]) -> Callable[[Request], None]:
    """Each once, the last from then on."""
    left = list(answers)
    return lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)


def test_another_name_ends_the_gate_long_before_its_deadline(model: Model) -> None:
    model.answer("models", 200, {"data": [{"id": "other"}]})
    failure = model.failure(LOADED, LISTED, s=3600)
    assert "waiting won't change it" in failure.what
    assert "other at /data/*/id instead of tiny" in failure.what
    assert "served_name" in failure.do


@pytest.mark.parametrize(("key", "do"), [("ours", "another key"), (None, "api_key")])
def test_a_key_that_is_not_accepted_is_told_as_that(model: Model, key: str | None, do: str) -> None:
    model.answer("models", 401, {"error": "Unauthorized"})
    failure = model.failure(LOADED, LISTED, key=key, s=3600)
    assert "HTTP 401" in failure.what
    assert do in failure.do


def test_one_that_is_not_ready_is_waited_for_whatever_it_answers(model: Model) -> None:
    """Until its first check has passed nothing it says is the last word."""
    starting = [lambda request: request.json({}, 404)] * 30
    model.answers["health"] = in_turn(*starting, lambda request: request.json({}))
    model.prove(LOADED, LISTED)


def test_an_answer_of_the_moment_is_not_the_last_word(model: Model) -> None:
    busy = [lambda request: request.json({}, 429)] * 15 + [lambda request: request.json({}, 503)] * 15
    model.answers["models"] = in_turn(*busy, lambda request: request.json({"data": [{"id": "tiny"}]}))
    model.prove(LOADED, LISTED)


def test_a_model_without_a_chat_template_is_proven_by_a_completion(model: Model) -> None:
    refused = "As of transformers v4.44, default chat template is no longer allowed"
    model.answer("chat", 400, {"error": {"message": refused}})
    model.answer("completions", 200, {"choices": [{"text": "yes"}]})
    model.prove(LOADED, LISTED, ANSWERS)
    model.answer("completions", 500, {"error": "no"})
    assert (
        "check completes (POST /v1/completions): HTTP 500" in model.failure(LOADED, LISTED, ANSWERS, s=1).what
    )


def test_a_chat_that_fails_for_another_reason_is_not_asked_otherwise(model: Model) -> None:
    model.answer("chat", 400, {"error": "max_tokens is too large"})
    model.answer("completions", 200, {"choices": [{"text": "yes"}]})
    assert "check answers" in model.failure(LOADED, LISTED, ANSWERS).what


def test_what_hangs_in_silence_ends_with_its_last_words(model: Model) -> None:
    model.answer("health", 503, {})
    model.log = (
        "(Worker pid=9) INFO 11-30 20:22:24 [cpu_model_runner.py:68] Starting to load model /models/x...\n"
        "\rLoading shards:   0% | 0/2\r\x1b[32mLoading shards:  50% | 1/2\x1b[0m\n\n"
    )
    failure = model.failure(LOADED, s=1)
    assert "does not serve after 1 s" in failure.what
    assert failure.cause == "it still loads, or hangs; the last it said: Loading shards: 50% | 1/2"
    assert set(model.alive) == {"Loading shards: 50% | 1/2"}
    assert "start_s" in failure.do


def test_what_never_answers_is_told_as_hanging(model: Model) -> None:
    model.answers["health"] = Request.cut
    model.log = "0.00.002.234 I load_model: loading model 'x.gguf'\n"
    assert (
        model.failure(LOADED, s=1).cause
        == "it still loads, or hangs; the last it said: load_model: loading model 'x.gguf'"
    )


def test_an_end_with_nothing_wrong_before_it_is_a_failure_too(model: Model) -> None:
    ended = {**model.inspected(), "State": {"Status": "exited", "Running": False, "ExitCode": 0}}
    model.answers["json"] = in_turn(
        lambda request: request.json(model.inspected()), lambda request: request.json(ended)
    )
    failure = model.failure(LOADED, LISTED)
    assert "stopped by itself (exit code 0)" in failure.what
    assert failure.exit_code == 0
