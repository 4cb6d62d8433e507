"""A model whose image, files or key can't be had stands in the plan with why; what runs of it stays as it is, and
the others go on."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.execute import execute
from cpudeploy.plan import history, make_plan, rollback_plan
from cpudeploy.report.outcome_text import end_code
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Backend, Deployment, Placement
from cpudeploy.types.facts import Engine, Facts
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import HostPlan, Plan
from cpudeploy.types.resolved import Resolved
from tests.factories import deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost

WHY = "huggingface org/nmae@main: no Hub has it for us; do: check the name"
A = placement("a", cpus="cores:1")
B = placement("b", port=8200, cpus="cores:1")


def without(*lacking: Placement, of: tuple[Placement, ...]) -> Resolved:
    """What is known where nothing is of the files of some."""
    known = resolved(*of)
    gone = {f"{each.model}@{each.host}" for each in lacking}
    return msgspec.structs.replace(
        known, weights={key: told for key, told in known.weights.items() if key not in gone}
    )


def plan_for(found: Facts, *wanted: Placement, lacking: tuple[Placement, ...] = (), **options: bool) -> Plan:
    return make_plan(
        deployment(*wanted),
        playbooks(),
        {"one": found},
        without(*lacking, of=wanted),
        origin="here",
        unplanned={f"{each.model}@{each.host}": WHY for each in lacking},
        **options,
    )


def planned(
    host: SimulatedHost, *wanted: Placement, lacking: tuple[Placement, ...] = (), **options: bool
) -> HostPlan:
    return plan_for(host.facts(), *wanted, lacking=lacking, **options).hosts["one"]


def apply(host: SimulatedHost, plan: Plan) -> HostOutcome:
    return execute(plan, lambda _: host, lambda event: None).hosts["one"]


def bring(host: SimulatedHost, *wanted: Placement, lacking: tuple[Placement, ...] = ()) -> HostOutcome:
    return apply(host, plan_for(host.facts(), *wanted, lacking=lacking))


def changed(plan: HostPlan) -> list[tuple[str, str]]:
    return [(change.subject, change.action) for change in plan.changes if change.step == "container"]


@pytest.fixture
def serving() -> SimulatedHost:
    """A host on which both serve."""
    host = SimulatedHost(facts())
    assert bring(host, A, B).status == "done"
    return host


def test_the_others_are_brought_about_and_the_end_says_that_something_is_left():
    host = SimulatedHost(facts())
    plan = plan_for(host.facts(), A, B, lacking=(B,))
    assert plan.hosts["one"].unplanned == {"b": WHY}
    assert changed(plan.hosts["one"]) == [("a", "create")]
    outcome = execute(plan, lambda _: host, lambda event: None)
    assert outcome.hosts["one"].status == "done"
    assert end_code(outcome, plan) == 1
    assert set(host.facts().containers) == {"rag_a_0"}
    assert changed(planned(host, A, B)) == [("b", "create")]


def test_where_nothing_can_be_planned_nothing_is_done(serving: SimulatedHost):
    before = len(serving.log)
    plan = plan_for(serving.facts(), A, B, lacking=(A, B))
    assert set(plan.hosts["one"].unplanned) == {"a", "b"}
    assert plan.empty
    assert apply(serving, plan).status == "unchanged"
    assert len(serving.log) == before


def test_what_runs_of_it_is_not_touched_whatever_becomes_of_the_others(serving: SimulatedHost):
    before = serving.facts()
    changed_a = placement("a", cpus="cores:1", context=4096)
    plan = planned(serving, changed_a, B, lacking=(B,))
    assert changed(plan) == [("a", "update")]
    assert bring(serving, changed_a, B, lacking=(B,)).status == "done"
    after = serving.facts()
    assert after.containers["rag_b_0"] == before.containers["rag_b_0"]
    assert after.images == before.images
    assert after.weights.trees == before.weights.trees
    assert planned(serving, changed_a, B).changes == ()


def test_one_that_is_down_is_left_down(serving: SimulatedHost):
    serving.container("rag_b_0").update(running=False, status="exited")
    assert planned(serving, A, B, lacking=(B,)).changes == ()


def test_of_one_model_on_two_hosts_only_the_one_that_lacks_something_waits():
    two = placement("a", host="two", cpus="cores:1")
    wanted = deployment(A, two, hosts=("one", "two"))
    plan = make_plan(
        wanted,
        playbooks(),
        {"one": facts(), "two": facts("two")},
        without(two, of=(A, two)),
        origin="here",
        unplanned={"a@two": WHY},
    )
    assert changed(plan.hosts["one"]) == [("a", "create")]
    assert plan.hosts["two"].changes == ()
    assert plan.hosts["two"].unplanned == {"a": WHY}


def test_an_image_that_nobody_has_keeps_its_models_alone():
    other = placement("b", port=8200, cpus="cores:1", backend="typo")
    wanted = deployment(A, other)
    typo = Backend(name="typo", playbook="llama-cpp", image="ghcr.io/ggml-org/llama.ccp:server-b9000")
    wanted = msgspec.structs.replace(wanted, backends={**wanted.backends, "typo": typo})
    plan = make_plan(
        wanted,
        playbooks(),
        {"one": facts()},
        resolved(A, other),
        origin="here",
        unplanned={"b@one": "image ghcr.io/ggml-org/llama.ccp:server-b9000: no place has it"},
    ).hosts["one"]
    assert changed(plan) == [("a", "create")]
    assert [change.id for change in plan.changes if change.step == "image"] == ["image:llama"]


@pytest.mark.parametrize("state", ["stopped", "absent"])
def test_no_engine_is_brought_to_a_machine_that_the_image_is_not_built_for(state: str):
    arm = msgspec.structs.replace(facts().os, arch="arm64")
    plan = plan_for(facts(os=arm, engine=Engine(state=state)), A).hosts["one"]  # type: ignore[arg-type]
    assert plan.changes == ()
    assert "not built for linux/arm64" in plan.unknown


def test_its_old_name_serves_on_as_long_as_it_can_not_be_had(serving: SimulatedHost):
    """`b` became `c`, and something of `c` was mistyped."""
    new = placement("c", port=8200, cpus="cores:1")
    plan = planned(serving, A, new, lacking=(new,))
    assert plan.changes == ()
    assert plan.unplanned["c"] == WHY
    assert "stays until c serves" in plan.unplanned["b"]
    assert planned(serving, A, new, lacking=(new,), retry=True).changes == ()
    assert bring(serving, A, new).status == "done"
    assert set(serving.facts().containers) == {"rag_a_0", "rag_c_0"}


def test_its_old_name_stays_also_where_another_model_changes(serving: SimulatedHost):
    new, more = placement("c", port=8200, cpus="cores:1"), placement("a", cpus="cores:1", context=4096)
    plan = planned(serving, more, new, lacking=(new,))
    assert changed(plan) == [("a", "update")]
    assert "stays until c serves" in plan.unplanned["b"]


MOVED = placement("b", host="two", port=8200, cpus="cores:1")


def moved(serving: SimulatedHost, **options: object) -> Plan:
    """`b` is wanted on another host from now on."""
    wanted = deployment(A, MOVED, hosts=("one", "two"))
    found = {"one": serving.facts(), "two": options.pop("two", facts("two"))}
    known = without(MOVED, of=(A, MOVED)) if "unplanned" in options else resolved(A, MOVED)
    found = {name: each for name, each in found.items() if each is not None}
    return make_plan(wanted, playbooks(), found, known, origin="here", **options)  # type: ignore[arg-type]


def test_one_that_moves_goes_from_its_old_host():
    host = SimulatedHost(facts())
    bring(host, A, B)
    assert changed(moved(host).hosts["one"]) == [("b", "remove")]


def test_one_that_can_not_be_had_on_its_new_host_serves_on_where_it_was(serving: SimulatedHost):
    plan = moved(serving, unplanned={"b@two": WHY})
    assert plan.hosts["one"].changes == ()
    assert "until it can be planned on two" in plan.hosts["one"].unplanned["b"]
    assert plan.hosts["two"].unplanned == {"b": WHY}


def test_one_whose_new_host_is_out_of_reach_or_refused_serves_on_where_it_was(serving: SimulatedHost):
    arm = facts("two", os=msgspec.structs.replace(facts().os, arch="arm64"))
    for options in ({"two": None, "unreachable": {"two": "no route"}}, {"two": arm}):
        plan = moved(serving, **options)
        assert plan.hosts["one"].changes == (), plan.hosts["one"]
        assert "until it can be planned on two" in plan.hosts["one"].unplanned["b"]


def test_where_it_serves_already_what_is_not_wanted_goes(serving: SimulatedHost):
    assert changed(planned(serving, B, lacking=(B,))) == [("a", "remove")]


def test_cores_are_left_to_what_can_not_be_sized_yet():
    one, two = placement("a"), placement("b", port=8200)
    host = SimulatedHost(facts())
    assert bring(host, one, two, lacking=(two,)).status == "done"
    assert bring(host, one, two).status == "done"
    cpusets = {name: found.cpuset for name, found in host.facts().containers.items()}
    assert set(cpusets) == {"rag_a_0", "rag_b_0"}
    assert cpusets["rag_a_0"] != cpusets["rag_b_0"]


def test_where_none_are_left_the_others_go_on_all_the_same():
    one, two = placement("a"), placement("b", port=8200)
    host = SimulatedHost(facts())
    assert bring(host, one).status == "done"
    more = placement("a", context=4096)
    assert changed(planned(host, more, two, lacking=(two,))) == [("a", "update")]


def back(host: SimulatedHost, *wanted: Placement, release: str = "", **options: dict[str, str]) -> HostPlan:
    manifest: Deployment = deployment(*wanted)
    plan = rollback_plan(
        manifest, playbooks(), {"one": host.facts()}, release=release, origin="here", **options
    )
    return plan.hosts["one"]


def test_going_back_takes_nothing_away_that_an_apply_had_passed_over(serving: SimulatedHost):
    changed_a = placement("a", cpus="cores:1", context=4096)
    bring(serving, changed_a, B, lacking=(B,))
    plan = back(serving, changed_a, B)
    assert "0001-" in plan.warnings[0]
    assert changed(plan) == [("a", "update")]
    newest = max(serving.facts().releases["rag"])
    bring(serving, placement("a", cpus="cores:1", context=1024), B, lacking=(B,))
    plan = back(serving, A, B, release=newest)
    assert changed(plan) == [("a", "update")]
    assert any("rag_b_0 stays" in warning for warning in plan.warnings)


def test_history_does_not_say_that_it_was_removed(serving: SimulatedHost):
    bring(serving, placement("a", cpus="cores:1", context=4096), B, lacking=(B,))
    (told,) = history(deployment(), {"one": serving.facts()})
    newest, first = told.releases
    assert [(each.model, each.change) for each in newest.instances] == [("a", "changed")]
    assert [(each.model, each.became) for each in first.instances if each.model == "b"] == [("b", "serving")]


def test_going_back_needs_the_keys_of_what_it_goes_back_to():
    key = SecretRef(kind="from_env", name="KEY")
    first, second = placement("a", cpus="cores:1", api_key=key), placement("a", cpus="cores:1", context=4096)
    host = SimulatedHost(facts())
    bring(host, first)
    bring(host, second)
    keyless = {"a@one": "environment variable KEY is not set; do: export KEY before running"}
    plan = back(host, first, keyless=keyless)
    assert plan.changes == ()
    assert "environment variable KEY is not set" in plan.unknown and "do: export KEY" in plan.unknown
    assert back(host, first, keyless={"b@one": "x", "a@two": "x"}).changes
    assert back(host, first).changes
