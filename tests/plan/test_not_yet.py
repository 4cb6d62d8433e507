"""What can't be carried out yet is named once and left alone; everything beside it is planned."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from cpudeploy.errors import UsageError
from cpudeploy.execute.runner import execute
from cpudeploy.manifest import load_playbook
from cpudeploy.plan import make_plan, plannable
from cpudeploy.plan.status import status_rows
from cpudeploy.report.outcome_text import end_code, outcome_data, render_outcome
from cpudeploy.report.plan_text import render_plan
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import (
    Backend,
    Deployment,
    Host,
    HuggingFace,
    Mirrors,
    ModelScope,
    Placement,
    Proxy,
    Registry,
    Ssh,
    Sudo,
    Upload,
)
from cpudeploy.types.facts import Facts
from cpudeploy.types.plan import HostPlan, Plan
from tests.factories import GIB, container, deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost

AGE = SecretRef(kind="from_age", name="key.age")
BOOKS = playbooks() | {"vllm-cpu": load_playbook("vllm-cpu")}
VLLM = Backend(name="vllm", playbook="vllm-cpu", image="vllm/vllm-openai-cpu:v0.21.0")
NOT_YET: list[tuple[dict[str, Any], str]] = [
    ({"task": "embed"}, "task embed"),
    ({"task": "rerank"}, "task rerank"),
    ({"source": ModelScope(repo="org/name")}, "ModelScope"),
    ({"source": Upload(path="m.gguf")}, "uploaded"),
    ({"each": "numa"}, "NUMA"),
    ({"api_key": AGE}, "api_key can't be read by from_age"),
    ({"source": HuggingFace(repo="a/b", token=msgspec.structs.replace(AGE, kind="from_sops"))}, "from_sops"),
]


def planned(wanted: Deployment, found: Facts | None = None) -> HostPlan:
    """The plan of host `one`; only what can be planned was resolved."""
    return plan_of(wanted, found).hosts["one"]


def plan_of(wanted: Deployment, found: Facts | None = None) -> Plan:
    known = resolved(*plannable(wanted).placements)
    return make_plan(wanted, BOOKS, {"one": found or facts()}, known, origin="here")


def of(*placements: Placement, **changes: Any) -> Deployment:
    wanted = deployment(*placements, **changes)
    return msgspec.structs.replace(wanted, backends={**wanted.backends, "vllm": VLLM})


def with_host(wanted: Deployment, **changes: Any) -> Deployment:
    host = Host(name="one", ssh=Ssh(address="10.1.2.3"), **changes)
    return msgspec.structs.replace(wanted, hosts={"one": host})


def subjects(plan: HostPlan) -> set[str]:
    return {change.subject for change in plan.changes if change.step == "container"}


@pytest.mark.parametrize(("wish", "says"), NOT_YET, ids=[says for _, says in NOT_YET])
def test_a_model_is_named_and_the_others_are_planned(wish: dict[str, Any], says: str):
    plan = planned(of(placement("new", **wish), placement("smol", port=8101)))
    assert set(plan.not_yet) == {"new"}
    assert says in plan.not_yet["new"]
    assert "; do: " in plan.not_yet["new"]
    assert subjects(plan) == {"smol"}
    assert not plan.unknown


@pytest.mark.parametrize(("wish", "says"), NOT_YET, ids=[says for _, says in NOT_YET])
def test_nobody_is_asked_about_it(wish: dict[str, Any], says: str):
    wanted = of(placement("new", **wish), placement("smol", port=8101))
    assert [each.model for each in plannable(wanted).placements] == ["smol"]


def test_what_runs_of_it_stays_with_all_it_holds():
    runs = container("new", cpuset="0-1", memory=4 * GIB)
    kept = container("new", cpuset="0-1", memory=4 * GIB, running=False, publish=())
    found = facts(containers={"rag_new_0": runs, "rag_new_0_old": kept, "rag_gone_0": container("gone")})
    plan = planned(of(placement("new", task="embed"), placement("smol", port=8101)), found)
    assert {(change.subject, change.action) for change in plan.changes if change.step == "container"} == {
        ("smol", "create"),
        ("gone", "remove"),
    }
    (mine,) = plan.allocations
    assert mine.cpuset == "2-3"


def test_its_port_is_not_given_away():
    found = facts(containers={"rag_new_0": container("new", cpuset="0")})
    plan = planned(of(placement("new", task="embed", port=8100), placement("smol", port=8100)), found)
    assert "port 8100 is taken" in plan.unknown
    assert set(plan.not_yet) == {"new"}


@pytest.mark.parametrize(
    ("host", "says"),
    [({"engine": "manage"}, "manage"), ({"sudo": Sudo(password=AGE)}, "sudo's password can't be read")],
)
def test_a_host_is_left_alone_with_the_reason(host: dict[str, Any], says: str):
    plan = planned(with_host(of(placement()), **host))
    assert says in plan.postponed
    assert (plan.changes, plan.unknown) == ((), "")


def test_a_host_nobody_could_log_in_to_for_that_is_not_unknown():
    wanted = with_host(of(placement()), sudo=Sudo(password=AGE))
    plan = make_plan(wanted, BOOKS, {}, resolved(), origin="here", unknown={"one": "no such secret"})
    assert plan.hosts["one"].unknown == ""
    assert "from_age" in plan.hosts["one"].postponed


def test_status_says_of_a_missing_model_whether_apply_would_bring_it():
    wanted = of(placement("new", task="embed"), placement("smol", port=8101))
    rows = status_rows(wanted, {"one": facts()})
    assert [row.detail.partition(":")[0] for row in rows] == ["not yet", "cpudeploy apply"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"proxy": Proxy(http="http://proxy:3128")}, "`proxy`"),
        ({"registries": (Registry(scope="x.corp", username="u", password=AGE),)}, "registry x.corp"),
    ],
)
def test_a_whole_deployment_is_left_alone_with_the_reason(setting: dict[str, Any], says: str):
    wanted = of(placement(), **setting)
    assert says in planned(wanted).postponed
    assert plannable(wanted).placements == ()


def test_a_retired_host_is_emptied_whatever_else_it_says():
    wanted = with_host(of(), engine="manage", retired=True)
    plan = planned(wanted, facts(containers={"rag_old_0": container("old")}))
    assert subjects(plan) == {"old"}
    assert plan.postponed == ""


def test_a_mirror_of_engine_packages_is_a_warning():
    plan = plan_of(of(placement(), mirrors=Mirrors(docker_ce="https://mirror.corp/docker-ce")))
    assert any("docker-ce is not used yet" in warning for warning in plan.warnings)
    assert subjects(plan.hosts["one"]) == {"smol"}


def test_the_text_names_it_with_what_to_do():
    plan = plan_of(of(placement("new", task="embed"), placement("smol", port=8101)))
    text = render_plan(plan, colour=False, width=200, verbose=False)
    assert re.search("! new +not yet: task embed.* do: keep to chat", text)
    assert "1 model to start" in text
    assert "1 model not yet" in text


def test_apply_does_the_rest_and_exits_1_naming_it():
    plan = plan_of(of(placement("new", task="embed"), placement("smol", port=8101)))
    host = SimulatedHost(facts())
    outcome = execute(plan, lambda _: host, lambda _: None)
    assert outcome.hosts["one"].status == "done"
    assert "rag_smol_0" in host.state["containers"]
    assert end_code(outcome, plan) == 1
    assert outcome_data(outcome, plan)["exit_code"] == 1
    assert "one new" in render_outcome(outcome, plan, colour=False, width=200)
    whole = plan_of(of(placement("smol")))
    assert end_code(outcome, whole) == 0


def test_a_plan_of_records_is_never_carried_out():
    known = resolved(placement())
    plan = make_plan(of(placement()), BOOKS, {"one": facts()}, known, origin="here", recorded="records")
    with pytest.raises(UsageError, match="recorded facts of records"):
        execute(plan, lambda _: SimulatedHost(facts()), lambda _: None)


def test_each_host_is_planned_for_its_own_models_only():
    placements = (
        placement("a"),
        placement("b", host="two"),
        placement("new", host="two", task="embed", port=8101),
    )
    wanted = of(*placements, hosts=("one", "two"))
    known = resolved(*plannable(wanted).placements)
    told = {name: facts(name) for name in ("one", "two")}
    plan = make_plan(wanted, BOOKS, told, known, origin="here")
    assert {name: subjects(host) for name, host in plan.hosts.items()} == {"one": {"a"}, "two": {"b"}}
    assert {name: set(host.not_yet) for name, host in plan.hosts.items()} == {"one": set(), "two": {"new"}}
