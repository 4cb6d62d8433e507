"""A controller that dies between any two operations of a replace: what the host needs to go on."""

from __future__ import annotations

import contextlib

import pytest

from cpudeploy.errors import EngineError
from cpudeploy.execute.change import document
from cpudeploy.execute.runner import execute
from cpudeploy.plan.fingerprint import matches
from cpudeploy.types.outcome import HostOutcome
from tests.execute.plans import KEPT, NAME, NEW, OLD, plan_of, replace
from tests.simulated import Killed, SimulatedHost

OPERATIONS = [operation.id for operation in replace().operations]


def killed_before(operation: str) -> SimulatedHost:
    """A host on which the old version served, and whose controller died just before `operation`."""
    host = SimulatedHost()
    host.add(NAME, OLD)

    def die() -> None:
        raise Killed

    host.before[operation] = die
    apply(host)
    host.before.clear()
    return host


def apply(host: SimulatedHost) -> HostOutcome:
    return execute(plan_of(h1=[replace()]), lambda _: host, lambda _: None).hosts["h1"]


def stands(host: SimulatedHost) -> dict[str, tuple[str, bool]]:
    """Container → release and whether it runs."""
    containers = host.state["containers"].items()
    return {name: (found["mark"]["release"], found["running"]) for name, found in containers}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_plan_goes_on_wherever_it_was_left(operation: str) -> None:
    host = killed_before(operation)
    assert apply(host).status == "done"
    assert stands(host) == {NAME: (NEW, True)}


@pytest.mark.parametrize("operation", OPERATIONS[3:])
def test_without_the_record_of_what_was_under_way_it_is_stale_and_touches_nothing(operation: str) -> None:
    host = killed_before(operation)
    host.state["in_flight"] = None
    before = stands(host)
    assert apply(host).status == "stale"
    assert stands(host) == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_revert_leads_back_to_before_from_anywhere(operation: str) -> None:
    """So a record of which change was under way is all a resume needs: revert it, do it again."""
    host = killed_before(operation)
    for step in replace().revert or ():
        host.perform(step, lambda _: None)
    assert stands(host) == {NAME: (OLD, True)}
    assert matches(replace().before, document(host.facts())) == ()
    assert apply(host).status == "done"
    assert stands(host) == {NAME: (NEW, True)}


def test_repeating_the_operations_from_the_start_is_no_resume() -> None:
    """Each may be repeated, their sequence may not: once the new one has the name, `stop` means it."""
    broken = []
    for operation in OPERATIONS:
        host = killed_before(operation)
        with contextlib.suppress(EngineError):
            for step in replace().operations:
                host.perform(step, lambda _: None)
        if stands(host) != {NAME: (NEW, True)}:
            broken.append(operation)
    assert broken == ["start", "wait", "policy", "remove"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_facts_alone_tell_a_fresh_plan_what_serves_and_what_is_unproven(operation: str) -> None:
    """At every point there is exactly one container that was proven, and it is marked as such."""
    host = killed_before(operation)
    policies = {name: found["restart_policy"] for name, found in host.state["containers"].items()}
    proven = [name for name, policy in policies.items() if policy != "no"]
    if operation == "remove":
        assert proven == [KEPT, NAME]
    else:
        assert len(proven) == 1
        assert host.container(proven[0])["mark"]["release"] == OLD
