"""Plans bring a host to what is wanted, from wherever an earlier one was interrupted, and then rest."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from cpudeploy.execute import execute
from cpudeploy.plan import destroy_plan, make_plan, matches
from cpudeploy.plan.status import status_rows
from cpudeploy.types.base import SecretRef, from_json, to_data, to_json
from cpudeploy.types.facts import Disk, Engine, Facts, Listening
from cpudeploy.types.operation import Wait
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import Plan
from tests.factories import container, deployment, facts, network, placement, playbooks, resolved
from tests.simulated import Killed, SimulatedHost

BARE = Engine(state="absent")


def plan_for(wanted, found: Facts, **changes) -> Plan:
    plan = make_plan(
        wanted, playbooks(), {"one": found}, resolved(*wanted.placements, **changes), origin="here"
    )
    return from_json(to_json(plan), Plan)


def apply(plan: Plan, host: SimulatedHost) -> HostOutcome:
    """Through the real runner: fingerprints, order, reverts."""
    return execute(plan, lambda _: host, lambda event: None).hosts["one"]


def bring(wanted, host: SimulatedHost, **changes) -> HostOutcome:
    """As the command does: what an apply left in the middle is settled, then a plan is made and applied."""
    if host.facts().in_flight is not None or host.facts().guards:
        host.settle()
    return apply(plan_for(wanted, host.facts(), **changes), host)


def count(plan: Plan) -> int:
    return sum(len(change.operations) for change in plan.hosts["one"].changes)


def killed_after(plan: Plan, host: SimulatedHost, operations: int) -> None:
    """The controller dies: no revert, no handler, whatever it had done until then stays."""
    host.die_after = len(host.log) + operations
    with contextlib.suppress(Killed):
        apply(plan, host)
    host.die_after = None


def serving(host: SimulatedHost) -> dict[str, bool]:
    return {
        name: found.running and found.restart_policy == "unless-stopped"
        for name, found in host.facts().containers.items()
    }


def test_a_bare_host_ends_serving_and_the_second_plan_is_empty():
    wanted = deployment(placement())
    host = SimulatedHost(facts(engine=BARE))
    apply(plan_for(wanted, host.facts()), host)
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
    apply(plan_for(deployment(placement(context=2048)), host.facts()), host)
    plan = plan_for(deployment(placement(context=4096)), host.facts())
    (change,) = plan.hosts["one"].changes
    shown = {diff.field: (diff.before, diff.after) for diff in change.diff}
    assert shown["context"] == ("2048", "4096")
    assert change.gap_s is not None
    apply(plan, host)
    assert serving(host) == {"rag_smol_0": True}
    assert plan_for(deployment(placement(context=4096)), host.facts()).empty


@pytest.mark.parametrize("upgrade", [False, True])
def test_killed_after_any_operation_the_next_apply_converges(upgrade):
    """The controller dies between two operations; a fresh plan from facts alone finishes the job."""
    wanted = deployment(placement(context=4096))
    begun = SimulatedHost(facts(engine=BARE))
    if upgrade:
        apply(plan_for(deployment(placement(context=2048)), begun.facts()), begun)
    plan = plan_for(wanted, begun.facts())
    for kept in range(count(plan) + 1):
        host = SimulatedHost(begun.facts())
        killed_after(plan, host, kept)
        bring(wanted, host)
        assert serving(host) == {"rag_smol_0": True}, kept
        assert plan_for(wanted, host.facts()).empty, kept


def test_killed_and_then_wanted_otherwise_still_converges_and_keeps_what_served():
    wanted = deployment(placement(context=2048))
    begun = SimulatedHost(facts())
    apply(plan_for(wanted, begun.facts()), begun)
    served = begun.facts().containers["rag_smol_0"].id
    upgrade = plan_for(deployment(placement(context=4096)), begun.facts())
    for kept in range(count(upgrade) + 1):
        host = SimulatedHost(begun.facts())
        killed_after(upgrade, host, kept)
        other = deployment(placement(context=1024))
        names = {found.id for found in host.facts().containers.values()}
        assert served in names or serving(host).get("rag_smol_0"), kept
        bring(other, host)
        assert serving(host) == {"rag_smol_0": True}, kept
        assert plan_for(other, host.facts()).empty, kept


def test_when_the_new_one_fails_the_revert_brings_the_old_one_back():
    host = SimulatedHost(facts())
    apply(plan_for(deployment(placement(context=2048)), host.facts()), host)
    served = host.facts().containers["rag_smol_0"].id
    plan = plan_for(deployment(placement(context=4096, served_name="broken")), host.facts())
    host.failing.add("broken")
    outcome = apply(plan, host)
    assert outcome.status == "reverted"
    assert outcome.changes[-1].failure.serving == "the old version serves again"
    assert serving(host) == {"rag_smol_0": True}
    assert host.facts().containers["rag_smol_0"].id == served


def test_a_revert_before_anything_was_created_leaves_the_old_one_serving():
    host = SimulatedHost(facts())
    apply(plan_for(deployment(placement(context=2048)), host.facts()), host)
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
    apply(plan_for(two, host.facts()), host)
    untouched = host.facts().containers["rag_a_0"].id
    apply(plan_for(deployment(placement("a", cpus="cores:1")), host.facts()), host)
    assert serving(host) == {"rag_a_0": True}
    assert host.facts().containers["rag_a_0"].id == untouched


def test_adding_a_model_does_not_touch_the_one_that_runs():
    one = placement("a", cpus="cores:1")
    host = SimulatedHost(facts())
    apply(plan_for(deployment(one), host.facts()), host)
    plan = plan_for(deployment(one, placement("b", port=8101, cpus="cores:2")), host.facts())
    assert {change.subject for change in plan.hosts["one"].changes} == {"b"}


def test_a_stopped_container_is_started_and_proven_again_not_replaced():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    served = host.facts().containers["rag_smol_0"].id
    host.container("rag_smol_0").update(running=False, status="exited", exit_code=137)
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert change.action == "gate"
    assert "137" in change.why
    apply(plan_for(wanted, host.facts()), host)
    assert host.facts().containers["rag_smol_0"].id == served


def test_what_was_changed_by_hand_is_shown_and_put_right():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    host.container("rag_smol_0")["memory"] = 123 << 20
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert [diff.why for diff in change.diff if diff.field == "memory"] == ["changed by hand"]
    apply(plan_for(wanted, host.facts()), host)
    assert plan_for(wanted, host.facts()).empty


def test_another_secret_is_a_change_and_its_value_is_nowhere():
    wanted = deployment(placement(api_key=SecretRef(kind="from_env", name="KEY")))
    host = SimulatedHost(facts())
    apply(plan_for(wanted, host.facts()), host)
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
    plan = plan_for(deployment(placement()), found).hosts["one"]
    assert plan.changes == ()
    assert "do: " in plan.unknown


def test_destroy_removes_ours_and_nothing_else():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    host.state["containers"]["theirs"] = to_data(msgspec.structs.replace(container("x"), mark=None))
    apply(destroy_plan(wanted, {"one": host.facts()}, origin="here"), host)
    assert set(host.facts().containers) == {"theirs"}
    assert host.facts().networks == {}
    assert destroy_plan(wanted, {"one": host.facts()}, origin="here").empty


def test_what_changes_nothing_for_the_container_is_no_change():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    renamed = msgspec.structs.replace(wanted.backends["llama"], name="other")
    other = msgspec.structs.replace(
        deployment(placement(backend="other", cpus="0-3")), backends={"other": renamed}
    )
    given = resolved(*other.placements)
    given = msgspec.structs.replace(given, images={"other": given.images["llama"]})
    assert make_plan(other, playbooks(), {"one": host.facts()}, given, origin="here").empty


@pytest.mark.parametrize("status", ["restarting", "paused"])
def test_one_that_restarts_for_ever_or_is_paused_does_not_serve(status):
    """For the engine both are `running`."""
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    host.container("rag_smol_0").update(status=status, restarts=500)
    (row,) = status_rows(wanted, {"one": host.facts()})
    assert row.state == status
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert change.action == "gate"
    assert status in change.why
    apply(plan_for(wanted, host.facts()), host)
    assert plan_for(wanted, host.facts()).empty


@pytest.mark.parametrize(
    "record", [None, {"unknown": "cut short"}, {"schema": 99, "id": "x"}, {"new": 1}, []]
)
def test_a_lost_or_strange_release_record_is_written_anew_and_nothing_restarts(record):
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    served = host.facts().containers["rag_smol_0"].id
    (release,) = host.state["releases"]["rag"]
    host.state["releases"]["rag"] = {} if record is None else {release: record}
    assert status_rows(wanted, {"one": host.facts()})[0].state == "serving"
    started = host.log.count("start")
    apply(plan_for(wanted, host.facts()), host)
    assert host.log.count("start") == started
    assert host.facts().containers["rag_smol_0"].id == served
    assert plan_for(wanted, host.facts()).empty


@pytest.mark.parametrize("wish", [{"port": 8200}, {"context": 1024}, {"args": ("--verbose",)}])
def test_a_lost_record_with_another_wish_is_replaced(wish):
    host = SimulatedHost(facts())
    apply(plan_for(deployment(placement()), host.facts()), host)
    served = host.facts().containers["rag_smol_0"].id
    host.state["releases"] = {}
    wanted = deployment(placement(**wish))
    apply(plan_for(wanted, host.facts()), host)
    assert host.facts().containers["rag_smol_0"].id != served
    assert plan_for(wanted, host.facts()).empty


def test_a_stopped_engine_is_only_started_and_nothing_is_planned_on_what_cannot_be_seen():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    down = msgspec.structs.replace(
        host.facts(), engine=Engine(state="stopped"), containers={}, networks={}, images={}
    )
    plan = plan_for(wanted, down).hosts["one"]
    assert [change.subject for change in plan.changes] == ["docker"]
    assert plan.partial and plan.warnings
    taken_away = destroy_plan(wanted, {"one": down}, origin="here").hosts["one"]
    assert taken_away.changes == ()
    assert "start it" in taken_away.unknown


def test_a_failed_upgrade_leaves_the_old_one_its_own_key():
    """Each release's secrets lie in a folder of their own: bringing the old container back brings its key."""
    key = SecretRef(kind="from_env", name="KEY")
    host = SimulatedHost(facts())
    apply(plan_for(deployment(placement(api_key=key)), host.facts()), host)
    first = {path for path in host.state["files"] if path.endswith("/api_key")}
    wanted = deployment(placement(api_key=key, served_name="broken"))
    host.failing.add("broken")
    apply(plan_for(wanted, host.facts(), secrets={"one/rag/smol/0/api_key": "changed"}), host)
    second = {path for path in host.state["files"] if path.endswith("/api_key")} - first
    assert len(first) == len(second) == 1
    assert serving(host) == {"rag_smol_0": True}


def test_what_is_fetched_is_counted_together_against_a_disk():
    small = facts(
        disks={
            "/var/lib/cpudeploy/weights": Disk(mount="/", total=2 * 10**9, free=1_250_000_000),
            "/var/lib/docker": Disk(mount="/", total=2 * 10**9, free=1_250_000_000),
        }
    )
    plan = plan_for(deployment(placement()), small).hosts["one"]
    assert plan.changes == ()
    assert "image" in plan.unknown and "weights" in plan.unknown and "free" in plan.unknown


def test_an_altered_file_of_a_model_is_linked_anew():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    (tree,) = host.state["weights"]["trees"].values()
    tree["m.gguf"] = 999
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert change.subject == "weights"
    apply(plan_for(wanted, host.facts()), host)
    assert plan_for(wanted, host.facts()).empty


def test_a_host_without_root_is_told_and_one_hosts_trouble_is_not_the_others():
    two = deployment(placement(), placement(host="two"), hosts=("one", "two"))
    found = {"one": facts("one", root="none"), "two": facts("two")}
    plan = make_plan(two, playbooks(), found, resolved(*two.placements), origin="here")
    assert "root" in plan.hosts["one"].unknown
    assert plan.hosts["two"].changes


def test_a_retired_host_is_emptied():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    retired = msgspec.structs.replace(
        wanted,
        hosts={"one": msgspec.structs.replace(wanted.hosts["one"], retired=True)},
        placements=(),
    )
    apply(plan_for(retired, host.facts()), host)
    assert host.facts().containers == {} and host.facts().releases == {}
    assert plan_for(retired, host.facts()).empty


def test_a_container_whose_networks_were_removed_by_hand_is_made_anew():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    ids = {name: network.id for name, network in host.facts().networks.items()}
    host.container("rag_smol_0").update(network_ids=ids)
    assert plan_for(wanted, host.facts()).empty
    host.container("rag_smol_0").update(running=False, status="exited")
    host.state["networks"] = {}
    apply(plan_for(wanted, host.facts()), host)
    assert serving(host) == {"rag_smol_0": True}
    assert plan_for(wanted, host.facts()).empty


def test_a_model_with_a_key_must_refuse_those_without_it():
    """A server that takes a key for a comment would be open to everybody, and answer all other checks."""
    key = SecretRef(kind="from_env", name="KEY")

    def statuses(**changes):
        plan = plan_for(deployment(placement(**changes)), facts())
        (gate,) = [
            operation.gate
            for change in plan.hosts["one"].changes
            for operation in change.operations
            if isinstance(operation, Wait)
        ]
        return [check.status for check in gate.checks if not check.auth]

    assert 401 in statuses(api_key=key)
    assert 401 not in statuses()


def test_a_quota_set_by_hand_is_drift():
    host = SimulatedHost(facts())
    wanted = deployment(placement())
    apply(plan_for(wanted, host.facts()), host)
    host.container("rag_smol_0")["quota"] = 0.1
    (change,) = plan_for(wanted, host.facts()).hosts["one"].changes
    assert [diff.field for diff in change.diff] == ["CPU quota"]


def test_a_stopped_container_gets_its_secret_files_back():
    key = SecretRef(kind="from_env", name="KEY")
    host = SimulatedHost(facts())
    wanted = deployment(placement(api_key=key))
    apply(plan_for(wanted, host.facts()), host)
    (path,) = [path for path in host.state["files"] if path.endswith("/api_key")]
    host.state["files"].clear()
    host.container("rag_smol_0").update(running=False, status="exited")
    apply(plan_for(wanted, host.facts()), host)
    assert path in host.state["files"]
