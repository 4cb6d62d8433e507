"""Waiting for a quiet moment: what counts as one, and that no change ever fails for want of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cpudeploy.execute import HostTarget
from cpudeploy.secrets import Secrets
from cpudeploy.types import event as ev
from cpudeploy.types import operation as op
from cpudeploy.types.plan import Plan
from cpudeploy.types.release import Check
from tests.execute.engine_server import EngineServer, Here, Request, engine_serving

NAME = "rag_tiny_0"
BUSY = Check(name="at work", path="/slots", pointer="/*/is_processing", equals="true")


@dataclass
class Bench:
    """An engine, and a model's server on a port of this machine. `asked`: how often the server was."""

    target: HostTarget
    model: EngineServer
    events: list[ev.Event] = field(default_factory=list)
    asked: int = 0

    def slots(self, answer: Callable[[Request, int], None]) -> None:
        """What the server says of its slots, by the number of times it was asked."""

        def answered(request: Request) -> None:
            self.asked += 1
            answer(request, self.asked)

        self.model.answers["slots"] = answered

    def drain(self, deadline_s: int = 20, busy: Check | None = BUSY) -> None:
        operation = op.Drain(
            id="drain",
            deadline_s=deadline_s,
            container=NAME,
            address="127.0.0.1",
            port=self.model.port,
            busy=busy,
        )
        self.target.perform(operation, self.events.append)

    @property
    def notes(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, ev.Note))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with engine_serving() as engine, engine_serving() as model:
        inspected = {"Name": f"/{NAME}", "HostConfig": {}, "State": {"Running": True}}
        engine.answers["json"] = lambda request: request.json(inspected)
        secrets = Secrets(tmp_path)
        plan = Plan(deployment="rag", base="/", origin="", hosts={})
        target = HostTarget(Here(secrets, engine.port), plan=plan, secrets=secrets)
        yield Bench(target, model)
        target.close()


def slots(*busy: bool) -> list[dict[str, object]]:
    return [{"id": number, "is_processing": is_busy} for number, is_busy in enumerate(busy)]


def test_it_waits_until_no_slot_is_at_work(bench: Bench) -> None:
    bench.slots(lambda request, asked: request.json(slots(False, asked < 4)))
    bench.drain()
    assert bench.asked == 4
    assert bench.notes == ""


def test_at_the_deadline_it_goes_on_and_says_what_is_cut(bench: Bench) -> None:
    bench.slots(lambda request, asked: request.json(slots(True)))
    bench.drain(deadline_s=1)
    assert bench.asked > 1
    assert "its requests are cut" in bench.notes


@pytest.mark.parametrize("status", [401, 404, 501])
def test_a_server_that_does_not_tell_is_not_waited_for(bench: Bench, status: int) -> None:
    bench.slots(lambda request, asked: request.json({}, status))
    bench.drain()
    assert bench.asked == 1
    assert f"HTTP {status}" in bench.notes


def test_without_a_check_nothing_is_asked(bench: Bench) -> None:
    bench.slots(lambda request, asked: request.json(slots(True)))
    bench.drain(busy=None)
    assert bench.asked == 0


def test_an_answer_that_breaks_off_is_no_sign_of_quiet(bench: Bench) -> None:
    def answer(request: Request, asked: int) -> None:
        request.json(slots(False)) if asked > 2 else request.cut()

    bench.slots(answer)
    bench.drain()
    assert bench.asked == 3
