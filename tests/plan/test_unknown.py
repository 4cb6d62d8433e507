"""What nobody knows is told as unknown and planned around; nothing of it can be carried out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cpudeploy.execute.runner import execute
from cpudeploy.plan import make_plan
from cpudeploy.report.plan_text import render_plan
from cpudeploy.types.base import Unknown
from cpudeploy.types.facts import Engine, Facts
from cpudeploy.types.plan import Change, Plan
from cpudeploy.types.resolved import Resolved, UnreadFile
from tests.factories import deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost

NO = Unknown(unknown="not recorded")


def plan_of(known: Resolved, found: Facts | None = None, recorded: str = "records") -> Plan:
    return make_plan(
        deployment(placement()),
        playbooks(),
        {"one": found or facts()},
        known,
        origin="here",
        recorded=recorded,
    )


def with_image(**changes: Any) -> Resolved:
    known = resolved(placement())
    image = msgspec.structs.replace(known.images["llama"], **changes)
    return msgspec.structs.replace(known, images={"llama": image})


def with_file(size: int | Unknown, sha256: str | Unknown) -> Resolved:
    known = resolved(placement())
    weights = msgspec.structs.replace(
        known.weights["smol@one"], tree="", files=(UnreadFile(name="m.gguf", size=size, sha256=sha256),)
    )
    return msgspec.structs.replace(known, weights={"smol@one": weights})


def change(plan: Plan, step: str) -> Change:
    (found,) = [each for each in plan.hosts["one"].changes if each.step == step]
    return found


def text(plan: Plan) -> str:
    return render_plan(plan, colour=False, width=300, verbose=False)


def test_an_image_without_a_digest_is_planned_and_said_to_have_none():
    plan = plan_of(with_image(digest=NO, places=(), size=NO))
    assert "size unknown (not recorded) · digest unknown (not recorded)" in text(plan)
    for step in ("image", "container"):
        assert "not recorded" in change(plan, step).unknown
        assert change(plan, step).operations == ()
    assert change(plan, "weights").operations
    assert plan.hosts["one"].allocations


def test_a_file_without_a_checksum_is_planned_and_said_to_have_none():
    plan = plan_of(with_file(NO, NO))
    assert "size unknown (not recorded) · checksum unknown (not recorded)" in text(plan)
    for step in ("weights", "container"):
        assert "not recorded" in change(plan, step).unknown
        assert change(plan, step).operations == ()
    assert change(plan, "image").operations


def test_a_size_alone_may_be_unknown():
    assert "size unknown (not recorded) · checksum" not in text(plan_of(with_file(NO, "a" * 64)))
    assert "98 MB to fetch · checksum unknown" in text(plan_of(with_file(98_000_000, NO)))


def test_a_host_that_does_not_tell_its_architecture_can_be_given_no_image():
    found = facts(os=msgspec.structs.replace(facts().os, arch=NO))
    assert "platform: not recorded" in change(plan_of(resolved(placement()), found), "image").unknown


def test_an_engine_nobody_looked_for_is_assumed_aloud():
    found = facts(engine=Engine(state="unknown", detail="nobody looked"), tools={})
    plan = plan_of(resolved(placement()), found)
    assert any("planned as if Docker ran there" in warning for warning in plan.hosts["one"].warnings)
    assert {each.step for each in plan.hosts["one"].changes} == {"network", "image", "weights", "container"}


def test_an_engine_that_was_looked_for_is_not_assumed():
    found = facts(engine=Engine(state="unknown", detail="the answer was cut off"))
    plan = plan_of(resolved(placement()), found, recorded="")
    assert "the answer was cut off" in plan.hosts["one"].unknown


@pytest.mark.parametrize("known", [with_image(digest=NO, places=()), with_file(NO, NO)])
def test_what_lacks_something_fails_before_anything_is_done(known: Resolved):
    plan = plan_of(known, recorded="")
    host = SimulatedHost(facts())
    outcome = execute(plan, lambda _: host, lambda _: None)
    failed = [each for each in outcome.hosts["one"].changes if each.failure is not None]
    assert "nobody can carry this out" in failed[0].failure.what
    assert not host.state["containers"]
