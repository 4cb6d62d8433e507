"""What another manifest applied under the same name is removed only by who says that it is theirs now."""

from __future__ import annotations

from cpudeploy.execute import execute
from cpudeploy.plan import destroy_plan, make_plan
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.plan import HostPlan, Plan
from tests.factories import deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost

HERE, THERE = "ops@desk:/srv/rag/inventory.yaml", "git@forge.corp:llm/rag.git inventory.yaml"
A = placement("a", cpus="cores:1")
B = placement("b", port=8200, cpus="cores:1")


def planned(host: SimulatedHost, wanted: Deployment, origin: str, *, adopt: bool = False) -> HostPlan:
    known = resolved(*wanted.placements)
    plan = make_plan(wanted, playbooks(), {"one": host.facts()}, known, origin=origin, adopt=adopt)
    return plan.hosts["one"]


def applied(host: SimulatedHost, wanted: Deployment, origin: str, *, adopt: bool = False) -> None:
    known = resolved(*wanted.placements)
    apply(host, make_plan(wanted, playbooks(), {"one": host.facts()}, known, origin=origin, adopt=adopt))


def apply(host: SimulatedHost, plan: Plan) -> None:
    assert execute(plan, lambda _: host, lambda event: None).hosts["one"].status == "done"


def removals(plan: HostPlan) -> list[str]:
    return [change.subject for change in plan.changes if change.action == "remove"]


def names(host: SimulatedHost) -> set[str]:
    return set(host.facts().containers)


def test_what_another_origin_applied_is_left_alone_and_told():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    plan = planned(host, deployment(B), THERE)
    assert removals(plan) == []
    assert HERE in plan.unplanned["a"] and "--adopt" in plan.unplanned["a"]
    assert [change.subject for change in plan.changes if change.step == "container"] == ["b"]
    applied(host, deployment(B), THERE)
    assert names(host) == {"rag_a_0", "rag_b_0"}


def test_what_it_holds_is_not_given_away():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    held = set(host.facts().containers["rag_a_0"].cpuset.split(","))
    plan = planned(host, deployment(B), THERE)
    (allocation,) = plan.allocations
    assert allocation.cpuset not in held


def test_adopted_it_is_removed_and_the_plan_says_whose_it_was():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    plan = planned(host, deployment(B), THERE, adopt=True)
    assert removals(plan) == ["a"]
    assert not plan.unplanned
    assert HERE in next(change.why for change in plan.changes if change.action == "remove")


def test_the_same_origin_removes_its_own():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    assert removals(planned(host, deployment(B), HERE)) == ["a"]


def test_a_clone_over_https_removes_what_a_clone_over_ssh_applied():
    host = SimulatedHost(facts())
    applied(host, deployment(A), THERE)
    assert removals(planned(host, deployment(B), "https://forge.corp/llm/rag inventory.yaml")) == ["a"]


def test_what_an_origin_has_applied_itself_since_is_its_own():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    applied(host, deployment(A, B), THERE)
    assert removals(planned(host, deployment(B), THERE)) == ["a"]
    assert removals(planned(host, deployment(B), HERE)) == []


def test_where_no_record_tells_it_counts_as_ours():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    host.state["releases"] = {}
    assert removals(planned(host, deployment(B), THERE)) == ["a"]


def test_destroy_takes_its_own_and_spares_what_the_others_need():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    applied(host, deployment(B), THERE)
    plan = destroy_plan(deployment(B), {"one": host.facts()}, origin=THERE).hosts["one"]
    assert removals(plan) == ["b"]
    assert list(plan.unplanned) == ["a"]
    apply(host, destroy_plan(deployment(B), {"one": host.facts()}, origin=THERE))
    assert names(host) == {"rag_a_0"}
    assert host.facts().networks and host.facts().releases["rag"]
    apply(host, destroy_plan(deployment(A), {"one": host.facts()}, origin=THERE, adopt=True))
    assert not names(host) and not host.facts().releases


def test_destroy_of_anothers_deployment_does_nothing():
    host = SimulatedHost(facts())
    applied(host, deployment(A), HERE)
    plan = destroy_plan(deployment(A), {"one": host.facts()}, origin=THERE)
    assert plan.empty
    assert plan.hosts["one"].left_out
    host.state["containers"] = {}
    plan = destroy_plan(deployment(A), {"one": host.facts()}, origin=THERE)
    assert plan.empty
    assert "--adopt" in plan.hosts["one"].left_out["state"]
