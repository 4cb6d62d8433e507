"""A newer version moves nobody: what earlier ones recorded is kept, finer estimates and new fields or not.
What people change does move."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.plan import Plan
from cpudeploy.types.playbook import Playbook
from tests.factories import deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost
from tests.sizing.machines import hybrid, numa

RECORDED = Path(__file__).parents[1] / "types" / "data"
WISH = placement(cpus="numa:0", context=8192, parallel=4)


def planned(wanted: Deployment, host: SimulatedHost, books: dict[str, Playbook] | None = None) -> Plan:
    known = resolved(*wanted.placements)
    return make_plan(wanted, books or playbooks(), {"one": host.facts()}, known, origin="here")


def served(wanted: Deployment, host: SimulatedHost) -> SimulatedHost:
    outcome = execute(planned(wanted, host), lambda _: host, lambda event: None)
    assert outcome.hosts["one"].status == "done"
    return host


@pytest.fixture
def host() -> SimulatedHost:
    return served(deployment(WISH), SimulatedHost(numa(4, 2)))


def instance(host: SimulatedHost) -> dict:
    (release,) = host.state["releases"]["rag"].values()
    return release["instances"]["rag_smol_0"]


def changed(backend_params: dict) -> Deployment:
    base = deployment(WISH)
    llama = msgspec.structs.replace(base.backends["llama"], params=backend_params)
    return msgspec.structs.replace(base, backends={"llama": llama})


def test_what_was_never_bound_to_a_node_stays_so(host):
    del instance(host)["container"]["cpuset_mems"], instance(host)["params"]
    host.container("rag_smol_0")["cpuset_mems"] = ""
    assert planned(deployment(WISH), host).empty


def test_threads_of_an_earlier_rule_stay():
    host = served(deployment(placement()), SimulatedHost(hybrid(2, 4)))
    assert instance(host)["threads"] == 2
    host.state["cpu"]["cores"][-1]["speed"] = 1000  # what tells fast cores got finer
    assert planned(deployment(placement()), host).empty


def test_a_larger_limit_of_an_earlier_estimate_stays(host):
    for memory in (instance(host)["container"], host.container("rag_smol_0")):
        memory["memory"] += 1 << 28
    host.container("rag_smol_0")["memory_swap"] += 1 << 28
    assert planned(deployment(WISH), host).empty


def test_a_binding_taken_away_by_hand_is_drift(host):
    host.container("rag_smol_0")["cpuset_mems"] = ""
    (change,) = planned(deployment(WISH), host).hosts["one"].changes
    assert [(diff.field, diff.before, diff.after) for diff in change.diff] == [("cpuset_mems", "", "0")]


def test_a_narrower_cache_makes_room(host):
    before = instance(host)["container"]["memory"]
    (allocation,) = planned(changed({"kv_type": "q8_0"}), host).hosts["one"].allocations
    assert allocation.memory < before
    assert allocation.mems == "0"


def test_another_wish_for_cpus_is_followed(host):
    moved = msgspec.structs.replace(WISH, cpus="numa:1")
    (allocation,) = planned(deployment(moved), host).hosts["one"].allocations
    assert (allocation.cpuset, allocation.mems, allocation.kept) == ("4-7", "1", False)


def test_a_smaller_limit_of_an_earlier_estimate_stays_and_is_told(host):
    instance(host)["container"]["memory"] = 1 << 26
    host.container("rag_smol_0").update(memory=1 << 26, memory_swap=1 << 26)
    plan = planned(deployment(WISH), host)
    assert plan.empty
    (allocation,) = plan.hosts["one"].allocations
    assert "--repack" in allocation.warnings[0]
    again = make_plan(
        deployment(WISH), playbooks(), {"one": host.facts()}, resolved(WISH), origin="here", repack=True
    )
    (fresh,) = again.hosts["one"].allocations
    assert fresh.memory >= fresh.need.total


def test_what_runs_as_wanted_is_named_beside_what_changes(host: SimulatedHost):
    more = placement("more", port=8109, cpus="numa:1")
    changed = msgspec.structs.replace(WISH, context=4096)
    for models, retained in (([WISH], (WISH.model,)), ([WISH, more], (WISH.model,)), ([changed, more], ())):
        plan = planned(deployment(*models), host).hosts["one"]
        assert not plan.unknown
        assert plan.retained == retained


def test_what_the_first_form_of_the_record_says_is_understood_and_nothing_is_replaced():
    """A host as an earlier version left it, with the document that version wrote."""
    wanted = deployment(placement(api_key=SecretRef(kind="from_env", name="KEY")))
    host = served(wanted, SimulatedHost(facts()))
    document = json.loads((RECORDED / "release-1.json").read_text())
    host.state["releases"] = {"rag": {document["id"]: document}}
    host.container("rag_smol_0")["mark"]["release"] = document["id"]
    assert planned(wanted, host).empty
    changed = deployment(placement(context=4096, api_key=SecretRef(kind="from_env", name="KEY")))
    (change,) = planned(changed, host).hosts["one"].changes
    assert ("context", "2048", "4096") in {(diff.field, diff.before, diff.after) for diff in change.diff}
    assert not [diff for diff in change.diff if diff.why == "its release record is lost"]
