"""A model's volumes: made with it, kept from version to version, gone with it; those of others stay."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.plan import destroy_plan, make_plan, prune_plan, rollback_plan
from cpudeploy.types.base import from_data, from_json, to_data, to_json
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.facts import Facts
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import HostPlan, Plan
from tests.engines import BOOKS, both, known, paged
from tests.factories import GIB, container, cores, deployment, facts, placement, playbooks, resolved
from tests.plan.test_converge import apply, count, killed_after
from tests.simulated import SimulatedHost

A = placement("a", cpus="cores:1")
B = placement("b", port=8200, cpus="cores:1")
CACHE_A, CACHE_B = "rag_a_cache", "rag_b_cache"


def books(**volumes: str):
    """The shipped playbooks, llama.cpp's with these volumes."""
    shipped = playbooks()
    template = msgspec.structs.replace(shipped["llama-cpp"].container, volumes=volumes)
    return {**shipped, "llama-cpp": msgspec.structs.replace(shipped["llama-cpp"], container=template)}


BOOK = books(cache="/cache")


def planned(wanted: Deployment, host: SimulatedHost, book=BOOK, **options) -> Plan:
    known_of = resolved(*wanted.placements)
    options = {"origin": "here", **options}
    return from_json(to_json(make_plan(wanted, book, {"one": host.facts()}, known_of, **options)), Plan)


def done(plan: Plan, host: SimulatedHost) -> HostOutcome:
    outcome = apply(plan, host)
    assert outcome.status == "done", outcome
    return outcome


def serving(*placements, book=BOOK) -> SimulatedHost:
    host = SimulatedHost(facts(cores=cores(8)))
    done(planned(deployment(*placements), host, book), host)
    return host


def destroyed(host: SimulatedHost, **options) -> Plan:
    return destroy_plan(deployment(), {"one": host.facts()}, **{"origin": "here", **options})


def pruned(wanted: Deployment, host: SimulatedHost, keep: int = 0) -> Plan:
    return prune_plan(wanted, {"one": host.facts()}, keep=keep, origin="here")


def volumes(host: SimulatedHost) -> set[str]:
    return set(host.facts().volumes)


def removed(plan: HostPlan) -> list[str]:
    return [change.subject for change in plan.changes if change.action == "remove"]


def test_what_vllm_compiles_outlives_its_container_and_not_its_model():
    wish = paged("full", cpus="cores:2")
    host = SimulatedHost(facts(memory=64 * GIB, cores=cores(8)))
    done(make_plan(both(wish), BOOKS, {"one": host.facts()}, known(wish), origin="here"), host)
    assert volumes(host) == {"rag_full_cache"}
    done(make_plan(both(), BOOKS, {"one": host.facts()}, known(), origin="here"), host)
    assert volumes(host) == set()


@pytest.mark.parametrize("change", [{"context": 4096}, {"replace": "stop-first", "context": 4096}])
def test_another_version_and_the_way_back_keep_the_volume(change):
    host = serving(A)
    other = msgspec.structs.replace(A, **change)
    host.failing = {"broken"}
    broken = msgspec.structs.replace(other, served_name="broken")
    assert apply(planned(deployment(broken), host), host).status == "reverted"
    assert volumes(host) == {CACHE_A}
    done(planned(deployment(other), host), host)
    assert volumes(host) == {CACHE_A}
    done(rollback_plan(deployment(other), BOOK, {"one": host.facts()}, origin="here"), host)
    assert volumes(host) == {CACHE_A}
    assert removed(planned(deployment(A), host).hosts["one"]) == []


def test_a_model_that_left_takes_its_volume_along_after_its_container():
    host = serving(A, B)
    plan = planned(deployment(A), host)
    assert removed(plan.hosts["one"]) == ["b", CACHE_B]
    done(plan, host)
    assert volumes(host) == {CACHE_A}
    assert planned(deployment(A), host).empty


def test_the_whole_way_of_a_model_that_is_renamed():
    """What comes serves before what goes is removed, the volume last of all."""
    host = serving(A)
    new = msgspec.structs.replace(B, port=8300)
    plan = planned(deployment(new), host)
    assert [change.id for change in plan.hosts["one"].changes][-2:] == [
        "container:rag_a_0",
        f"volume:{CACHE_A}",
    ]
    host.failing = {"b"}
    apply(plan, host)
    assert CACHE_A in volumes(host)
    assert CACHE_A not in removed(planned(deployment(new), host).hosts["one"])
    host.failing = set()
    done(planned(deployment(new), host, retry=True), host)
    assert volumes(host) == {CACHE_B}


@pytest.mark.parametrize("what", ["removal", "destroy"])
def test_killed_after_any_operation_the_next_one_takes_the_rest_away(what: str):
    begun = serving(A, B).facts()

    def plan(host: SimulatedHost) -> Plan:
        return destroyed(host) if what == "destroy" else planned(deployment(A), host)

    first = plan(SimulatedHost(begun))
    for kept in range(count(first) + 1):
        host = SimulatedHost(begun)
        killed_after(first, host, kept)
        host.settle()
        apply(plan(host), host)
        assert volumes(host) == ({CACHE_A} if what == "removal" else set()), kept
        assert plan(host).empty, kept


def test_a_plan_that_was_killed_between_container_and_volume_is_taken_up_again():
    host = serving(A, B)
    plan = planned(deployment(A), host)
    killed_after(plan, host, host_operations(plan, "container"))
    assert (volumes(host), set(host.facts().containers)) == ({CACHE_A, CACHE_B}, {"rag_a_0"})
    host.unlock()
    done(plan, host)
    assert volumes(host) == {CACHE_A}


def host_operations(plan: Plan, step: str) -> int:
    return sum(len(change.operations) for change in plan.hosts["one"].changes if change.step == step)


def test_a_volume_of_ours_whose_model_is_nowhere_goes():
    host = serving(A)
    host.state["volumes"][CACHE_B] = {"deployment": "rag"}
    assert removed(planned(deployment(A), host).hosts["one"]) == [CACHE_B]
    done(planned(deployment(A), host), host)
    assert volumes(host) == {CACHE_A}


def test_volumes_of_others_are_nobodys_business():
    theirs = {
        "other_a_cache": {"deployment": "other"},
        "rag": {"deployment": ""},
        "rag_c_cache": {"deployment": ""},
        "rag_d_cache": {"deployment": "other"},
        "notes": {"deployment": "rag"},
        "f" * 64: {"deployment": ""},
    }
    host = serving(A)
    host.state["volumes"].update(theirs)
    host.container("rag_a_0")["volumes"].append("f" * 64)
    assert planned(deployment(A), host).empty
    assert pruned(deployment(A), host).empty
    done(destroyed(host), host)
    assert host.state["volumes"] == theirs


@pytest.mark.parametrize("label", ["", "other"])
def test_a_volume_of_the_wanted_name_that_is_not_ours_is_never_written_to_but_told(label: str):
    host = SimulatedHost(facts(cores=cores(8)))
    host.state["volumes"][CACHE_A] = {"deployment": label}
    plan = planned(deployment(A), host).hosts["one"]
    assert plan.changes == ()
    assert f"a volume named {CACHE_A} is there already and is not ours" in plan.unknown
    assert f"docker volume rm {CACHE_A}" in plan.unknown


def test_going_back_refuses_it_too():
    host = serving(A)
    done(planned(deployment(msgspec.structs.replace(A, context=4096)), host), host)
    host.state["volumes"][CACHE_A]["deployment"] = "other"
    plan = rollback_plan(deployment(A), BOOK, {"one": host.facts()}, origin="here")
    assert "is not ours" in plan.hosts["one"].unknown


def test_one_without_a_label_that_our_container_mounts_is_ours():
    """Restored from a copy: tools that do that lose labels."""
    host = serving(A, B)
    for name in (CACHE_A, CACHE_B):
        host.state["volumes"][name]["deployment"] = ""
    assert planned(deployment(A, B), host).empty
    done(planned(deployment(A), host), host)
    assert volumes(host) == {CACHE_A}
    done(destroyed(host), host)
    assert volumes(host) == set()


def test_somebody_elses_container_that_mounts_it_is_named():
    host = serving(A, B)
    host.state["containers"]["backup"] = to_data(container("x", mark=None, volumes=(CACHE_B,), publish=()))
    outcome = apply(planned(deployment(A), host), host)
    (failed,) = [change for change in outcome.changes if change.status == "failed"]
    assert failed.failure is not None and "backup" in failed.failure.what
    assert set(host.facts().containers) == {"rag_a_0", "backup"}
    del host.state["containers"]["backup"]
    done(planned(deployment(A), host), host)
    assert volumes(host) == {CACHE_A}


def test_a_model_that_can_not_be_planned_keeps_its_volume():
    host = serving(A, B)
    del host.state["containers"]["rag_b_0"]
    plan = planned(deployment(A, B), host, unplanned={"b@one": "the Hub does not answer"})
    assert plan.empty


def test_what_another_origin_applied_is_left_to_it_until_it_is_adopted():
    host = serving(A)
    assert planned(deployment(), host, origin="there").empty
    assert destroyed(host, origin="there").empty
    del host.state["containers"]["rag_a_0"]
    assert planned(deployment(), host, origin="there").empty
    assert destroyed(host, origin="there").empty
    assert removed(planned(deployment(), host, origin="there", adopt=True).hosts["one"]) == [CACHE_A]


def test_a_volume_that_the_playbook_gives_up_goes_when_no_release_names_it_any_more():
    host = serving(A)
    bare = books()
    for context in (3072, 4096):
        wanted = deployment(msgspec.structs.replace(A, context=context))
        assert pruned(wanted, host).empty
        done(planned(wanted, host, bare), host)
        assert volumes(host) == {CACHE_A}
    done(pruned(wanted, host), host)
    assert volumes(host) == set()
    assert pruned(wanted, host).empty


def test_prune_leaves_a_volume_that_anybody_mounts():
    host = serving(A)
    wanted = deployment(msgspec.structs.replace(A, context=4096))
    done(planned(wanted, host, books()), host)
    host.state["releases"]["rag"].pop(min(host.state["releases"]["rag"]))
    host.state["containers"]["backup"] = to_data(container("x", mark=None, volumes=(CACHE_A,), publish=()))
    assert CACHE_A not in removed(pruned(wanted, host).hosts["one"])


def test_facts_of_before_there_were_volumes_are_read():
    data = to_data(serving(A).facts())
    del data["volumes"]
    for each in data["containers"].values():
        del each["volumes"]
    found = from_data(data, Facts)
    assert found.volumes == {}
    assert make_plan(deployment(A), BOOK, {"one": found}, resolved(A), origin="here").empty
