"""What a plan says of sizing: warnings where something changes, and where else a model would fit."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from tests.factories import GIB, cores, deployment, facts, placement, playbooks, resolved, shape
from tests.simulated import SimulatedHost


def planned(wanted, *found, **changes):
    known = resolved(*wanted.placements, **changes)
    return make_plan(wanted, playbooks(), {each.host: each for each in found}, known, origin="here")


def warnings(wanted, found, **changes):
    return planned(wanted, found, **changes).hosts["one"].warnings


def test_a_sizing_warning_names_its_model_and_comes_only_with_a_change():
    wanted = deployment(placement("a", cpus="shared"), placement("b", cpus="shared", port=8101))
    host = SimulatedHost(facts(cores=cores(2)))
    plan = planned(wanted, host.facts())
    assert [text.partition(":")[0] for text in plan.hosts["one"].warnings] == ["a", "b"]
    execute(plan, lambda _: host, lambda event: None)
    again = planned(wanted, host.facts()).hosts["one"]
    assert (again.changes, again.warnings) == ((), ())


def test_what_was_written_by_hand_is_told_with_the_change_it_makes():
    told = "`BIND=nobind`: threads wander"
    wanted = deployment(placement(warnings=(told,)))
    host = SimulatedHost(facts())
    plan = planned(wanted, host.facts())
    assert plan.hosts["one"].warnings == (f"smol: {told}",)
    assert plan.hosts["one"].allocations[0].warnings == (told,)
    execute(plan, lambda _: host, lambda event: None)
    assert planned(wanted, host.facts()).hosts["one"].warnings == ()


def test_threads_bound_by_hand_to_one_core_are_told():
    wanted = deployment(placement(cpus="0,2", bind="0,2"))
    (warning,) = warnings(wanted, facts(cores=cores(2, smt=2)))
    assert "CPUs 0,2 are one core" in warning


@pytest.mark.parametrize(("swap", "word"), [(0, "no swap"), (8 * GIB, "may swap")])
def test_memory_that_is_not_free_now_is_told_with_what_happens_then(swap, word):
    found = facts()
    memory = msgspec.structs.replace(found.memory, available=GIB // 8, swap=swap)
    (warning,) = warnings(deployment(placement()), msgspec.structs.replace(found, memory=memory))
    assert word in warning


def test_what_a_replaced_container_gives_back_is_free_for_the_new_one():
    host = SimulatedHost(facts())
    execute(planned(deployment(placement()), host.facts()), lambda _: host, lambda event: None)
    host.state["memory"]["available"] = 1 << 20
    assert warnings(deployment(placement(served_name="other")), host.facts()) == ()


def test_a_chat_model_without_a_template_is_told_before_it_is_fetched():
    (warning,) = warnings(deployment(placement()), facts(), shape=shape(chat_template=False))
    assert warning.startswith("smol: ")
    assert "chat template" in warning


def test_a_host_that_is_too_small_names_the_one_that_is_not():
    big = placement(context=8192, parallel=4)
    wanted = deployment(big, hosts=("one", "two"))
    plan = planned(wanted, facts(memory=GIB), facts("two"))
    assert "move smol to two, where it fits" in plan.hosts["one"].unknown
    assert plan.hosts["two"].unknown == ""


def test_a_model_that_is_there_too_is_not_moved_there():
    big = placement(context=8192, parallel=4)
    wanted = deployment(big, msgspec.structs.replace(big, host="two"), hosts=("one", "two"))
    plan = planned(wanted, facts(memory=GIB), facts("two"))
    assert "to two" not in plan.hosts["one"].unknown
    assert [change.subject for change in plan.hosts["two"].changes if change.step == "container"] == ["smol"]


def test_an_image_for_another_processor_stops_one_host_only():
    arm = msgspec.structs.replace(facts("two").os, arch="arm64")
    two = placement("other", host="two")
    plan = planned(deployment(placement(), two, hosts=("one", "two")), facts(), facts("two", os=arm))
    assert "not built for linux/arm64" in plan.hosts["two"].unknown
    assert plan.hosts["one"].changes
