"""What has proven itself and is committed is never undone: what is left to clear away is finished instead."""

from __future__ import annotations

import pytest

from cpudeploy.errors import EngineError
from cpudeploy.execute.change import carry_out, document
from cpudeploy.execute.interrupt import Interrupt
from cpudeploy.types.plan import Plan
from tests.plan.test_converge import apply, bring, count, killed_after, plan_for
from tests.plan.test_replace import (
    NAME,
    WAYS,
    begun,
    begun_without_container,
    ids,
    left,
    open_to_people,
    wish,
)
from tests.simulated import SimulatedHost

BEHIND = ("stop old", "forget secrets", "clear")
"""Operations behind the commit."""


def upgrade(way: str) -> Plan:
    return plan_for(wish(way, context=4096), begun())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", BEHIND)
def test_what_fails_behind_the_commit_does_not_take_the_new_one_away(way: str, operation: str):
    host = SimulatedHost(begun())
    host.fail[operation] = EngineError("the engine says no")
    outcome = apply(upgrade(way), host)
    assert outcome.status == "failed"
    failure = outcome.changes[0].failure
    assert failure is not None and failure.serving == "the new version serves"
    new = host.facts().containers[NAME]
    assert new.id != begun().containers[NAME].id
    assert open_to_people(host) == [NAME]
    del host.fail[operation]
    assert bring(wish(way, context=4096), host).status == "done"
    assert open_to_people(host) == [NAME]
    assert host.facts().containers[NAME].id == new.id
    assert set(host.facts().containers) == {NAME}


@pytest.mark.parametrize("way", WAYS)
def test_an_old_one_whose_removal_was_not_confirmed_leaves_the_new_one_serving(way: str):
    host = SimulatedHost(begun())
    host.before["clear"] = lambda: host.state["containers"].pop(f"{NAME}_old")
    host.fail["clear"] = EngineError("no answer in time")
    apply(upgrade(way), host)
    assert open_to_people(host) == [NAME]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", BEHIND)
def test_asked_to_stop_behind_the_commit_the_change_is_finished(way: str, operation: str):
    host, interrupt = SimulatedHost(begun()), Interrupt()
    host.before[operation] = interrupt.ask
    (change,) = upgrade(way).hosts["one"].changes
    carried = carry_out(change, document(host.facts()), host, "one", lambda event: None, interrupt)
    assert carried.outcome.status == "done"
    assert open_to_people(host) == [NAME]
    assert set(host.facts().containers) == {NAME}
    assert plan_for(wish(way, context=4096), host.facts()).empty


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("guard", ["settled", "fired"])
@pytest.mark.parametrize("died_in", ["serve", "prove", "commit", *BEHIND, "the end"])
def test_the_same_plan_finishes_what_its_killed_apply_had_proven(way: str, died_in: str, guard: str):
    """Died behind an operation, whose end the journal may not know."""
    plan = upgrade(way)
    operations = ids(plan.hosts["one"].changes[0])
    host = SimulatedHost(begun())
    killed_after(plan, host, operations.index(died_in) + 1 if died_in in operations else len(operations))
    left(host, guard)
    before = len(host.log)
    assert apply(plan, host).status in ("done", "unchanged")
    assert not {"create", "remove new", "start old"} & set(host.log[before:])
    assert open_to_people(host) == [NAME]
    assert set(host.facts().containers) == {NAME}
    assert host.facts().in_flight is None


def test_the_same_plan_leaves_alone_what_its_killed_apply_had_done():
    """A first install, whose last operation was done and whose end was not noted."""
    plan = plan_for(wish(), begun_without_container())
    host = SimulatedHost(begun_without_container())
    killed_after(plan, host, count(plan))
    host.die()
    assert host.facts().in_flight is not None
    before = len(host.log)
    assert apply(plan, host).status == "unchanged"
    assert host.log[before:] == ["prove"]
    assert open_to_people(host) == [NAME]
