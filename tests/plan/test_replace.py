"""Beside and stop-first: who serves meanwhile, what brings the old one back, which of the two is chosen."""

from __future__ import annotations

import functools

import msgspec
import pytest

from cpudeploy.plan import make_plan
from cpudeploy.types import operation as op
from cpudeploy.types.base import SecretRef, from_data, to_data
from cpudeploy.types.deployment import Reserve
from cpudeploy.types.facts import Engine, Facts, Node
from cpudeploy.types.plan import Change, Plan
from tests.engines import BOOKS, both, known, paged
from tests.factories import GIB, cores, deployment, facts, placement
from tests.plan.test_converge import apply, bring, killed_after, plan_for, serving
from tests.simulated import SimulatedHost

NAME = "rag_smol_0"
WAYS = ("beside", "stop-first")
LOST = ("settled", "fired", "lost")
"""What becomes of a guard whose controller died: it waits for the next apply, it fires, or it is forgotten."""


def wish(way: str = "auto", **changes):
    return deployment(placement(replace=way, **changes))


@functools.cache
def begun() -> Facts:
    """A host of eight cores that serves a context of 2048."""
    host = SimulatedHost(facts(cores=cores(8)))
    apply(plan_for(wish(context=2048), host.facts()), host)
    assert serving(host) == {NAME: True}
    return host.facts()


def change_for(wanted, found: Facts, **changes) -> Change:
    (change,) = plan_for(wanted, found, **changes).hosts["one"].changes
    return change


def ids(change: Change) -> list[str]:
    return [operation.id for operation in change.operations]


def open_to_people(host: SimulatedHost) -> list[str]:
    return [name for name in host.state["containers"] if host.publishes(name)]


def left(host: SimulatedHost, guard: str) -> None:
    """The controller died, and this became of its guard."""
    if guard == "fired":
        host.die()
    elif guard == "lost":
        host.unlock()
        host.armed.clear()
        host.state.update(guards={}, in_flight=None)
    else:
        host.unlock()


@pytest.mark.parametrize("way", WAYS)
def test_an_upgrade_ends_proven_and_alone(way: str):
    host = SimulatedHost(begun())
    assert apply(plan_for(wish(way, context=4096), host.facts()), host).status == "done"
    assert serving(host) == {NAME: True}
    assert open_to_people(host) == [NAME]
    assert sorted(host.container(NAME)["networks"]) == ["rag_int", "rag_pub"]
    assert host.facts().guards == {}
    release = host.facts().containers[NAME].mark.release
    assert host.facts().releases["rag"][release]["proven"] == [NAME]
    assert plan_for(wish(way, context=4096), host.facts()).empty


def test_beside_somebody_serves_at_every_moment_but_the_swap():
    host = SimulatedHost(begun())
    change = change_for(wish("beside", context=4096), host.facts())
    dark = []
    for operation in change.operations:
        host.perform(operation, lambda event: None)
        if not open_to_people(host):
            dark.append(operation.id)
    assert dark == ["unpublish old"]
    assert change.gap_s == 1


def test_stop_first_nobody_serves_between_the_stop_and_the_start():
    host = SimulatedHost(begun())
    change = change_for(wish("stop-first", context=4096), host.facts())
    dark = []
    for operation in change.operations:
        host.perform(operation, lambda event: None)
        if not open_to_people(host):
            dark.append(operation.id)
    assert dark == ["stop", "keep", "create"]
    assert change.gap_s is not None and change.gap_s > 2


def test_the_gap_of_an_engine_that_compiles_is_told_with_its_start():
    def plan(host: SimulatedHost, context: int) -> Plan:
        wished = paged(context=context, replace="stop-first")
        return make_plan(both(wished), BOOKS, {"one": host.facts()}, known(wished), origin="here")

    host = SimulatedHost(facts(memory=32 * GIB))
    apply(plan(host, 4096), host)
    (change,) = plan(host, 2048).hosts["one"].changes
    assert change.gap_s is not None and change.gap_s > 60


@pytest.mark.parametrize("way", WAYS)
def test_what_serves_is_guarded_from_before_it_is_touched_until_the_new_one_is_proven(way: str):
    change = change_for(wish(way, context=4096), begun())
    order = ids(change)
    armed, committed = order.index("guard"), order.index("commit")
    assert order.index("record") < armed < order.index("create")
    touching = [name for name in ("drain", "stop", "keep", "unpublish old") if name in order]
    assert touching and all(armed < order.index(name) < committed for name in touching)
    assert order.index("prove") == order.index("serve") + 1 == committed - 1
    assert order.index("clear") > committed


def test_a_first_install_needs_no_guard():
    change = change_for(wish(), begun_without_container())
    assert change.action == "create"
    assert not {"guard", "commit", "drain"} & set(ids(change))


def begun_without_container() -> Facts:
    return msgspec.structs.replace(begun(), containers={})


@pytest.mark.parametrize("guard", LOST)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("then", [4096, 1024, 2048])
def test_killed_after_any_operation_one_apply_converges(way: str, guard: str, then: int):
    """Whether the next wish is the same, another, or the old one again."""
    upgrade = plan_for(wish(way, context=4096), begun())
    for kept in range(len(upgrade.hosts["one"].changes[0].operations) + 1):
        host = SimulatedHost(begun())
        killed_after(upgrade, host, kept)
        left(host, guard)
        outcome = bring(wish(way, context=then), host)
        assert outcome.status in ("done", "unchanged"), (kept, outcome)
        assert serving(host) == {NAME: True}, kept
        assert open_to_people(host) == [NAME], kept
        assert plan_for(wish(way, context=then), host.facts()).empty, kept
        assert host.facts().guards == {}


@pytest.mark.parametrize("guard", ["settled", "fired"])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_plan_goes_on_after_a_kill(way: str, guard: str):
    upgrade = plan_for(wish(way, context=4096), begun())
    operations = [operation.id for operation in upgrade.hosts["one"].changes[0].operations]
    for kept in range(len(operations) + 1):
        host = SimulatedHost(begun())
        killed_after(upgrade, host, kept)
        left(host, guard)
        assert apply(upgrade, host).status in ("done", "unchanged"), kept
        assert open_to_people(host) == [NAME], kept


@pytest.mark.parametrize("way", WAYS)
def test_a_guard_that_fires_brings_back_what_served(way: str):
    served = begun().containers[NAME].id
    upgrade = plan_for(wish(way, context=4096), begun())
    operations = [operation.id for operation in upgrade.hosts["one"].changes[0].operations]
    for kept in range(len(operations) + 1):
        host = SimulatedHost(begun())
        killed_after(upgrade, host, kept)
        host.die()
        assert open_to_people(host) == [NAME], kept
        if kept <= operations.index("serve"):
            assert host.container(NAME)["id"] == served, kept
            assert host.container(NAME)["restart_policy"] == "unless-stopped"


@pytest.mark.parametrize("way", WAYS)
def test_undone_after_any_operation_the_old_one_serves(way: str):
    served = begun().containers[NAME].id
    change = change_for(wish(way, context=4096), begun())
    for done in range(ids(change).index("serve")):
        host = SimulatedHost(begun())
        for operation in change.operations[:done]:
            host.perform(operation, lambda event: None)
        for operation in change.revert or ():
            host.perform(operation, lambda event: None)
        assert open_to_people(host) == [NAME], done
        assert host.container(NAME)["id"] == served, done
        assert host.facts().guards == {} and set(host.facts().containers) == {NAME}


def test_what_fails_beside_never_takes_the_old_one_down():
    host = SimulatedHost(begun())
    served = host.facts().containers[NAME].id
    host.failing.add("broken")
    dark = []
    host.before["remove next"] = lambda: dark.append(open_to_people(host))
    outcome = apply(plan_for(wish("beside", served_name="broken"), host.facts()), host)
    assert outcome.status == "reverted"
    assert dark == [[NAME]]
    assert "unpublish old" not in host.log and "stop" not in host.log
    assert host.facts().containers[NAME].id == served
    assert set(host.facts().held["rag"]) == {NAME}


def test_what_was_begun_and_then_fails_is_taken_away_and_held():
    """A first install, killed before its gate."""
    wanted = wish(served_name="broken")
    host = SimulatedHost(facts())
    killed_after(plan_for(wanted, host.facts()), host, len(all_ids(wanted, host.facts())) - 4)
    assert host.facts().containers[NAME].restart_policy == "no"
    left(host, "lost")
    host.failing.add("broken")
    assert bring(wanted, host).status == "reverted"
    assert host.facts().containers == {}
    assert set(host.facts().held["rag"]) == {NAME}


def all_ids(wanted, found: Facts) -> list[str]:
    return [each.id for change in plan_for(wanted, found).hosts["one"].changes for each in change.operations]


def test_what_was_proven_before_is_not_held_when_it_fails():
    host = SimulatedHost(begun())
    apply(plan_for(wish("stop-first", context=4096), host.facts()), host)
    assert change_for(wish("stop-first", context=2048), host.facts()).hold is None
    assert change_for(wish("stop-first", context=1024), host.facts()).hold is not None


def test_with_another_secret_the_same_is_tried_as_new():
    key = SecretRef(kind="from_env", name="KEY")
    host = SimulatedHost(begun())
    apply(plan_for(wish(context=2048, api_key=key), host.facts()), host)
    changed = change_for(
        wish(context=2048, api_key=key), host.facts(), secrets={"one/rag/smol/0/api_key": "changed"}
    )
    assert changed.hold is not None
    assert "drain" not in ids(changed)  # nobody but the host has the key that could be asked with


def test_a_container_cut_off_by_hand_is_connected_again_without_a_restart():
    host = SimulatedHost(begun())
    served = host.facts().containers[NAME].id
    for part in ("networks", "network_ids"):
        host.container(NAME)[part].pop("rag_pub")
    assert open_to_people(host) == []
    change = change_for(wish(context=2048), host.facts())
    assert change.action == "gate"
    assert [diff.field for diff in change.diff] == ["networks"]
    apply(plan_for(wish(context=2048), host.facts()), host)
    assert open_to_people(host) == [NAME]
    assert host.facts().containers[NAME].id == served
    assert plan_for(wish(context=2048), host.facts()).empty


def with_facts(**changes) -> Facts:
    return msgspec.structs.replace(begun(), **changes)


def with_memory(**changes) -> Facts:
    return with_facts(memory=msgspec.structs.replace(begun().memory, **changes))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (begun, "beside · both fit"),
        (lambda: with_memory(available=1), "are free now"),
        (lambda: with_memory(available=0), "are free now"),
        (lambda: with_facts(engine=Engine(state="running", version="19.03.9")), "older than 20.10"),
        (lambda: with_facts(engine=Engine(state="running", version="")), "version is unknown"),
    ],
    ids=["room", "little free", "nothing free", "old engine", "unknown engine"],
)
def test_auto_is_beside_where_that_can_be(found, said: str):
    change = change_for(wish(context=4096), found())
    assert said in change.summary
    assert ("beside" in change.summary) == ("create" in ids(change) and "gate beside" in ids(change))


def test_few_cores_are_not_shared_by_two_unless_that_is_wanted():
    host = SimulatedHost(facts(cores=cores(4)))
    apply(plan_for(wish(context=2048), host.facts()), host)
    assert "stop first (4 cores for both)" in change_for(wish(context=4096), host.facts()).summary
    assert "gate beside" in ids(change_for(wish("beside", context=4096), host.facts()))


def test_a_quota_counts_as_cores():
    host = SimulatedHost(facts(cores=cores(8), quota=4.5))
    apply(plan_for(wish(context=2048), host.facts()), host)
    assert "4 cores for both" in change_for(wish(context=4096), host.facts()).summary


def test_no_room_for_both_is_said_in_numbers():
    change = change_for(wish(context=1024), crowded())
    assert "stop first (both need " in change.summary and " of " in change.summary
    plan = plan_for(wish("beside", context=1024), crowded()).hosts["one"]
    assert plan.changes == ()
    assert "both need" in plan.unknown and "do: " in plan.unknown


def crowded() -> Facts:
    """Another's container leaves too little for two."""
    found = to_data(begun())
    theirs = {**found["containers"][NAME], "id": "x", "mark": None, "publish": [], "cpuset": ""}
    own = found["containers"][NAME]["memory"]
    theirs["memory"] = begun().memory.total - 384 * (1 << 20) - own - own // 2
    found["containers"]["theirs"] = theirs
    return from_data(found, Facts)


def test_what_others_of_ours_will_take_is_counted_too():
    """The model that comes in the same plan."""
    two = deployment(
        placement(context=1024),
        placement("big", port=8200, cpus="7-7", memory=15600 << 20),
    )
    (small,) = [c for c in plan_for(two, begun()).hosts["one"].changes if c.subject == "smol"]
    assert "both need" in small.summary


def test_a_node_counts_where_both_are_bound_to_one():
    nodes = (Node(id=0, memory=2 * GIB), Node(id=1, memory=14 * GIB))
    start = facts(cores=cores(16, nodes=2))
    start = msgspec.structs.replace(start, memory=msgspec.structs.replace(start.memory, nodes=nodes))
    host = SimulatedHost(start)
    first = wish(cpus="numa:0", context=2048, memory=1500 << 20)
    apply(plan_for(first, host.facts()), host)
    assert host.facts().containers[NAME].cpuset_mems == "0"
    summary = change_for(wish(cpus="numa:0", context=4096, memory=1500 << 20), host.facts()).summary
    assert "on NUMA node 0" in summary


def test_a_reserve_counts():
    wanted = wish(context=4096)
    one = msgspec.structs.replace(wanted.hosts["one"], reserve=Reserve(memory=16 * GIB - (500 << 20)))
    host = msgspec.structs.replace(wanted, hosts={"one": one})
    assert "both need" in change_for(host, begun()).summary


def test_where_nothing_serves_the_new_one_simply_comes():
    host = SimulatedHost(begun())
    host.container(NAME).update(running=False, status="exited", exit_code=1)
    for way in ("auto", *WAYS):
        change = change_for(wish(way, context=4096), host.facts())
        assert "gate beside" not in ids(change)
        assert change.gap_s is None
        assert "drain" not in ids(change)


@pytest.mark.parametrize("way", WAYS)
def test_requests_under_way_are_waited_for_as_long_as_is_said(way: str):
    (waits,) = [
        operation
        for operation in change_for(wish(way, context=4096, drain_s=45), begun()).operations
        if isinstance(operation, op.Drain)
    ]
    assert (waits.deadline_s, waits.container, waits.port) == (45, NAME, 8100)
    assert waits.busy is not None
    assert "drain" not in ids(change_for(wish(way, context=4096, drain_s=0), begun()))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory", 1 << 30),
        ("cpuset", "0"),
        ("quota", 1.0),
        ("restart_policy", "no"),
        ("network_ids", {}),
        ("id", "x"),
    ],
)
def test_a_plan_is_stale_after_a_change_by_hand(field: str, value):
    plan = plan_for(wish(context=4096), begun())
    host = SimulatedHost(begun())
    host.container(NAME)[field] = value
    assert apply(plan, host).status == "stale"
    assert set(host.log) == set()


def test_what_serves_already_is_recorded_as_proven():
    host = SimulatedHost(begun())
    two = deployment(placement(context=2048), placement("other", port=8200, cpus="7-7"))
    plan = plan_for(two, host.facts())
    assert {change.subject for change in plan.hosts["one"].changes} == {"other"}
    (record,) = [o for o in plan.hosts["one"].changes[-1].operations if isinstance(o, op.Record)]
    assert record.proven == (NAME,)
    apply(plan, host)
    assert host.facts().releases["rag"][record.release]["proven"] == ["rag_other_0", NAME]
