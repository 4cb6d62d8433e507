"""Plans bring a host to what is wanted, from wherever an earlier one was interrupted, and then rest."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import GateFailed, HostError
from cpudeploy.plan import destroy_plan, make_plan, matches
from cpudeploy.sizing import allocate
from cpudeploy.types.base import from_json, to_data, to_json
from cpudeploy.types.facts import Engine, Facts, Listening
from cpudeploy.types.plan import Plan
from tests.factories import container, deployment, facts, network, placement, playbooks, resolved
from tests.simulated import SimulatedHost

BARE = Engine(state="absent")


def plan_for(wanted, found: Facts, **changes) -> Plan:
    given = resolved(*wanted.placements, **changes)
    books = playbooks()
    allocations = allocate(wanted, {"one": found}, given, books)
    plan = make_plan(wanted, books, {"one": found}, {}, given, allocations, origin="here")
    return from_json(to_json(plan), Plan)


def operations(plan: Plan):
    return [(change, operation) for change in plan.hosts["one"].changes for operation in change.operations]


def carry_out(plan: Plan, host: SimulatedHost, stop_after: int | None = None) -> None:
    for position, (_, operation) in enumerate(operations(plan)):
        if stop_after is not None and position >= stop_after:
            return
        host.perform(operation, lambda event: None)


def serving(host: SimulatedHost) -> dict[str, bool]:
    return {
        name: found.running and found.restart_policy == "unless-stopped"
        for name, found in host.facts().containers.items()
    }


def test_a_bare_host_ends_serving_and_the_second_plan_is_empty():
    wanted = deployment(placement())
    host = SimulatedHost(facts(engine=BARE))
    carry_out(plan_for(wanted, host.facts()), host)
    assert serving(host) == {"rag_smol_0": True}
    assert plan_for(wanted, host.facts()).empty


def test_every_change_finds_its_before_and_leaves_its_after():
    host = SimulatedHost(facts(engine=BARE))
    plan = plan_for(deployment(placement()), host.facts())
    for change in plan.hosts["one"].changes:
        assert matches(change.before, to_data(host.facts())) == ()
        assert matches(change.after, to_data(host.facts())) != ()
        for operation in change.operations:
            host.perform(operation, lambda event: None)
        assert matches(change.after, to_data(host.facts())) == ()


def test_one_changed_line_is_one_change_with_its_field():
    host = SimulatedHost(facts())
    carry_out(plan_for(deployment(placement(context=2048)), host.facts()), host)
    plan = plan_for(deployment(placement(context=4096)), host.facts())
    (change,) = plan.hosts["one"].changes
    shown = {diff.field: (diff.before, diff.after) for diff in change.diff}
    assert shown["context"] == ("2048", "4096")
    assert change.gap_s is not None
    carry_out(plan, host)
    assert serving(host) == {"rag_smol_0": True}
    assert plan_for(deployment(placement(context=4096)), host.facts()).empty


@pytest.mark.parametrize("upgrade", [False, True])
def test_killed_after_any_operation_the_next_apply_converges(upgrade):
    """The controller dies between two operations; a fresh plan from facts alone finishes the job."""
    wanted = deployment(placement(context=4096))
    begun = SimulatedHost(facts(engine=BARE))
    if upgrade:
        carry_out(plan_for(deployment(placement(context=2048)), begun.facts()), begun)
    plan = plan_for(wanted, begun.facts())
    for kept in range(len(operations(plan)) + 1):
        host = SimulatedHost(begun.facts())
        carry_out(plan, host, stop_after=kept)
        carry_out(plan_for(wanted, host.facts()), host)
        assert serving(host) == {"rag_smol_0": True}, kept
        assert plan_for(wanted, host.facts()).empty, kept


def test_killed_and_then_wanted_otherwise_still_converges_and_keeps_what_served():
    wanted = deployment(placement(context=2048))
    begun = SimulatedHost(facts())
    carry_out(plan_for(wanted, begun.facts()), begun)
    served = begun.facts().containers["rag_smol_0"].id
    upgrade = plan_for(deployment(placement(context=4096)), begun.facts())
    for kept in range(len(operations(upgrade)) + 1):
        host = SimulatedHost(begun.facts())
        carry_out(upgrade, host, stop_after=kept)
        other = deployment(placement(context=1024))
        before = plan_for(other, host.facts())
        names = {found.id for found in host.facts().containers.values()}
        assert served in names or serving(host).get("rag_smol_0"), kept
        carry_out(before, host)
        assert serving(host) == {"rag_smol_0": True}, kept
        assert plan_for(other, host.facts()).empty, kept


def test_when_the_new_one_fails_the_revert_brings_the_old_one_back():
    host = SimulatedHost(facts())
    carry_out(plan_for(deployment(placement(context=2048)), host.facts()), host)
    served = host.facts().containers["rag_smol_0"].id
    plan = plan_for(deployment(placement(context=4096, served_name="broken")), host.facts())
    host.failing.add("broken")
    (change,) = plan.hosts["one"].changes
    with pytest.raises(GateFailed):
        carry_out(plan, host)
    for operation in change.revert or ():
        host.perform(operation, lambda event: None)
    assert serving(host) == {"rag_smol_0": True}
    assert host.facts().containers["rag_smol_0"].id == served


def test_a_revert_before_anything_was_created_leaves_the_old_one_serving():
    host = SimulatedHost(facts())
    carry_out(plan_for(deployment(placement(context=2048)), host.facts()), host)
    (change,) = plan_for(deployment(placement(context=4096)), host.facts()).hosts["one"].changes
    for done in range(len(change.operations)):
        aside = SimulatedHost(host.facts())
        for operation in change.operations[:done]:
            aside.perform(operation, lambda event: None)
        if aside.facts().containers.get("rag_smol_0_old") is None and serving(aside).get("rag_smol_0"):
            continue  # past the gate: nothing to undo any more, or not yet begun
        for operation in change.revert or ():
            aside.perform(operation, lambda event: None)
        assert serving(aside) == {"rag_smol_0": True}, done


def test_a_model_that_left_the_manifest_is_removed_and_the_other_is_not_touched():
    two = deployment(placement("a", cpus="cores:1"), placement("b", port=8101, cpus="cores:1"))
    host = SimulatedHost(facts())
    carry_out(plan_for(two, host.facts()), host)
    untouched = host.facts().containers["rag_a_0"].id
    carry_out(plan_for(deployment(placement("a", cpus="cores:1")), host.facts()), host)
    assert serving(host) == {"rag_a_0": True}
    assert host.facts().containers["rag_a_0"].id == untouched


def test_adding_a_model_does_not_touch_the_one_that_runs():
    one = placement("a", cpus="cores:1")
    host = SimulatedHost(facts())
    carry_out(plan_for(deployment(one), host.facts()), host)
    plan = plan_for(deployment(one, placement("b", port=8101, cpus="cores:2")), host.facts())
    assert {change.subject for change in plan.hosts["one"].changes} == {"b"}


def test_a_stopped_container_is_started_and_proven_again_not_replaced():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    carry_out(plan_for(wanted, host.facts()), host)
    served = host.facts().containers["rag_smol_0"].id
    host.container("rag_smol_0").update(running=False, exit_code=137)
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert change.action == "gate"
    assert "137" in change.why
    carry_out(plan_for(wanted, host.facts()), host)
    assert host.facts().containers["rag_smol_0"].id == served


def test_what_was_changed_by_hand_is_shown_and_put_right():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    carry_out(plan_for(wanted, host.facts()), host)
    host.container("rag_smol_0")["memory"] = 123 << 20
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert [diff.why for diff in change.diff if diff.field == "memory"] == ["changed by hand"]
    carry_out(plan_for(wanted, host.facts()), host)
    assert plan_for(wanted, host.facts()).empty


def test_another_secret_is_a_change_and_its_value_is_nowhere():
    from cpudeploy.types.base import SecretRef

    wanted = deployment(placement(api_key=SecretRef(kind="from_env", name="KEY")))
    host = SimulatedHost(facts())
    carry_out(plan_for(wanted, host.facts()), host)
    plan = plan_for(wanted, host.facts(), secrets={"one/rag/smol/0/api_key": "changed"})
    (change,) = plan.hosts["one"].changes
    assert [diff.field for diff in change.diff] == ["api_key"]


@pytest.mark.parametrize(
    "found",
    [
        facts(containers={"rag_smol_0": msgspec.structs.replace(container(), mark=None, cpuset="")}),
        facts(networks={"rag_pub": msgspec.structs.replace(network("rag_pub"), deployment="")}),
        facts(ports=(Listening(address="0.0.0.0", port=8100),)),
        facts(engine=Engine(state="foreign", detail="podman")),
    ],
    ids=["container", "network", "port", "engine"],
)
def test_what_is_not_ours_is_never_touched_but_told(found):
    with pytest.raises(HostError) as raised:
        plan_for(deployment(placement()), found)
    assert raised.value.where.startswith("one")
    assert raised.value.do


def test_destroy_removes_ours_and_nothing_else():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    carry_out(plan_for(wanted, host.facts()), host)
    host.state["containers"]["theirs"] = to_data(msgspec.structs.replace(container("x"), mark=None))
    carry_out(destroy_plan(wanted, {"one": host.facts()}, {}, origin="here"), host)
    assert set(host.facts().containers) == {"theirs"}
    assert host.facts().networks == {}
    assert destroy_plan(wanted, {"one": host.facts()}, {}, origin="here").empty


def test_what_changes_nothing_for_the_container_is_no_change():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    carry_out(plan_for(wanted, host.facts()), host)
    renamed = msgspec.structs.replace(wanted.backends["llama"], name="other")
    other = msgspec.structs.replace(
        deployment(placement(backend="other", cpus="0-3")), backends={"other": renamed}
    )
    given = resolved(*other.placements)
    given = msgspec.structs.replace(given, images={"other": given.images["llama"]})
    allocations = allocate(other, {"one": host.facts()}, given, playbooks())
    assert make_plan(other, playbooks(), {"one": host.facts()}, {}, given, allocations, origin="here").empty
