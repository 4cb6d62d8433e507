"""The order in which containers change: ports go on when they are free, what goes is last where there is room."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.types.facts import Facts
from tests.factories import GIB, cores, deployment, facts, placement
from tests.plan.test_converge import apply, bring, plan_for, serving
from tests.simulated import SimulatedHost


def wish(**ports: int):
    """Models at their ports, of one core each."""
    return deployment(*(placement(name, port=port, cpus="cores:1") for name, port in ports.items()))


def host_with(**ports: int) -> SimulatedHost:
    host = SimulatedHost(facts(cores=cores(8)))
    assert apply(plan_for(wish(**ports), host.facts()), host).status == "done"
    return host


def order(wanted, found: Facts) -> list[tuple[str, str]]:
    return [(each.subject, each.action) for each in plan_for(wanted, found).hosts["one"].changes[-3:]]


def ports(host: SimulatedHost) -> dict[str, int]:
    assert all(serving(host).values())
    return {name: each.publish[0].port for name, each in host.facts().containers.items()}


def test_a_port_goes_on_in_one_apply_in_whatever_order_the_models_are_written():
    for names in (("a", "b"), ("b", "a")):
        host = host_with(a=8100, b=8200)
        moved = {"a": 8300, "b": 8100}
        wanted = wish(**{name: moved[name] for name in names})
        assert apply(plan_for(wanted, host.facts()), host).status == "done"
        assert ports(host) == {"rag_a_0": 8300, "rag_b_0": 8100}
        assert plan_for(wanted, host.facts()).empty


def test_ports_that_would_have_to_be_swapped_are_refused_before_anything_happens():
    host = host_with(a=8100, b=8200)
    plan = plan_for(wish(a=8200, b=8100), host.facts()).hosts["one"]
    assert plan.changes == ()
    assert "a, b would have to swap ports" in plan.unknown and "do: " in plan.unknown
    for step in (wish(a=8300, b=8200), wish(a=8300, b=8100), wish(a=8200, b=8100)):
        assert apply(plan_for(step, host.facts()), host).status == "done"
    assert ports(host) == {"rag_a_0": 8200, "rag_b_0": 8100}


def test_a_model_of_another_name_comes_before_its_old_one_goes():
    host = host_with(a=8100)
    wanted = wish(b=8200)
    assert order(wanted, host.facts())[-2:] == [("b", "create"), ("a", "remove")]
    apply(plan_for(wanted, host.facts()), host)
    assert ports(host) == {"rag_b_0": 8200}
    assert plan_for(wanted, host.facts()).empty


def test_on_the_same_port_the_old_name_goes_first():
    host = host_with(a=8100)
    assert order(wish(b=8100), host.facts())[-2:] == [("a", "remove"), ("b", "create")]
    assert apply(plan_for(wish(b=8100), host.facts()), host).status == "done"


def test_where_there_is_no_room_for_both_the_old_name_goes_first():
    host = host_with(a=8100)
    found = host.facts()
    own = found.containers["rag_a_0"].memory
    for memory in (
        msgspec.structs.replace(found.memory, total=own + own // 2 + 384 * (1 << 20)),
        msgspec.structs.replace(found.memory, available=own // 2),
    ):
        tight = msgspec.structs.replace(found, memory=memory)
        assert order(wish(b=8200), tight)[-2:] == [("a", "remove"), ("b", "create")]
    assert found.memory.total == 16 * GIB


def test_nothing_is_removed_while_what_may_take_its_place_does_not_serve():
    host = host_with(a=8100)
    wanted = deployment(placement("b", port=8200, cpus="cores:1", served_name="broken"))
    host.failing.add("broken")
    outcome = apply(plan_for(wanted, host.facts()), host)
    assert outcome.status == "reverted"
    assert {each.subject: each.status for each in outcome.changes}["a"] == "skipped"
    assert ports(host) == {"rag_a_0": 8100}
    again = plan_for(wanted, host.facts()).hosts["one"]
    assert again.changes == ()
    assert set(again.held) == {"b"}
    assert "stays until b serves" in again.unplanned["a"]
    repaired = wish(b=8200)
    host.failing.clear()
    assert bring(repaired, host).status == "done"
    assert ports(host) == {"rag_b_0": 8200}


@pytest.mark.parametrize("names", [("b", "c"), ("c", "b")])
def test_what_has_a_port_that_another_waits_for_goes_also_while_something_is_lacking(names: tuple[str, ...]):
    host = host_with(a=8100)
    each = {
        "b": placement("b", port=8100, cpus="cores:1"),
        "c": placement("c", port=8200, cpus="cores:1", served_name="broken"),
    }
    wanted = deployment(*(each[name] for name in names))
    host.failing.add("broken")
    for _ in range(2):
        bring(wanted, host)
        assert ports(host) == {"rag_b_0": 8100}
    assert plan_for(wanted, host.facts()).empty


def test_a_port_that_a_held_model_still_has_is_refused_before_anything_happens():
    host = host_with(a=8100)
    host.failing.add("broken")
    moved = placement("a", port=8300, cpus="cores:1", served_name="broken")
    assert apply(plan_for(deployment(moved), host.facts()), host).status == "reverted"
    other = placement("b", port=8100, cpus="cores:1")
    plan = plan_for(deployment(moved, other), host.facts()).hosts["one"]
    assert plan.changes == ()
    assert "port 8100 is taken on 127.0.0.1 by model a" in plan.unknown
