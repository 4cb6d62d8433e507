"""An engine that is told the size of its cache keeps that size, and its limit, until people change something."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from cpudeploy.types.allocation import Allocation
from cpudeploy.types.deployment import Placement
from cpudeploy.types.plan import Plan
from cpudeploy.types.playbook import Overhead
from tests.engines import BOOKS, NEWEST, both, known, paged
from tests.factories import GIB, cores, facts, placement
from tests.simulated import SimulatedHost
from tests.sizing.machines import numa

WISH = paged(context=8192, parallel=2)
COARSE = msgspec.structs.replace(NEWEST, kv="GiB")
HEAVY = msgspec.structs.replace(NEWEST, engine_mib=NEWEST.engine_mib + 2048)


def planned(host: SimulatedHost, wish: Placement = WISH, overhead: Overhead = COARSE, tag: str = "") -> Plan:
    told = known(wish)
    if tag:
        image = msgspec.structs.replace(
            told.images["vllm"],
            reference=f"docker.io/vllm/vllm-openai-cpu:{tag}",
            digest="sha256:" + "e" * 64,
        )
        told = msgspec.structs.replace(told, images={**told.images, "vllm": image})
    return make_plan(both(wish, overhead=overhead), BOOKS, {"one": host.facts()}, told, origin="here")


def allotted(plan: Plan) -> Allocation:
    (allocation,) = plan.hosts["one"].allocations
    return allocation


@pytest.fixture
def host() -> SimulatedHost:
    host = SimulatedHost(facts(memory=32 * GIB))
    outcome = execute(planned(host), lambda _: host, lambda event: None)
    assert outcome.hosts["one"].status == "done"
    return host


def test_what_runs_has_whole_gib_and_a_fresh_one_would_not(host: SimulatedHost):
    assert allotted(planned(host)).need.kv == 2 * GIB
    fresh = allotted(planned(SimulatedHost(facts(memory=32 * GIB)), overhead=NEWEST))
    assert fresh.need.kv < 2 * GIB


@pytest.mark.parametrize("overhead", [NEWEST, HEAVY], ids=["cache", "engine"])
def test_a_finer_estimate_of_a_newer_playbook_restarts_nothing(host: SimulatedHost, overhead: Overhead):
    assert planned(host, overhead=overhead).empty


def test_another_version_of_the_engine_gets_its_own_numbers(host: SimulatedHost):
    before = allotted(planned(host))
    after = allotted(planned(host, overhead=HEAVY, tag="v0.33.0"))
    assert (after.cpuset, after.threads) == (before.cpuset, before.threads)
    assert after.need.kv < before.need.kv
    assert after.memory > before.memory


def test_a_size_set_by_hand_is_followed_by_the_limit(host: SimulatedHost):
    before = allotted(planned(host))
    after = allotted(planned(host, msgspec.structs.replace(WISH, kv=6 * GIB)))
    assert (after.need.kv, after.cpuset) == (6 * GIB, before.cpuset)
    assert after.memory - before.memory >= 4 * GIB


def carried_out(host: SimulatedHost, wish: Placement, overhead: Overhead = NEWEST) -> Allocation:
    plan = planned(host, wish, overhead)
    assert execute(plan, lambda _: host, lambda event: None).hosts["one"].status == "done"
    return allotted(plan)


def test_an_estimate_that_would_split_a_model_among_nodes_today_splits_nothing_that_runs():
    host = SimulatedHost(numa(8, 2, memory=9 * GIB))
    shared = msgspec.structs.replace(WISH, cpus="shared")
    assert carried_out(host, shared).ranks == 1
    much = msgspec.structs.replace(NEWEST, engine_mib=NEWEST.engine_mib + 4096)
    assert allotted(planned(SimulatedHost(numa(8, 2, memory=9 * GIB)), shared, much)).ranks == 2
    assert planned(host, shared, much).empty


def test_cores_in_another_node_as_well_bring_the_memory_that_two_ranks_need():
    host = SimulatedHost(numa(8, 2))
    carried_out(host, msgspec.structs.replace(WISH, cpus="numa:0"))
    wide = msgspec.structs.replace(WISH, cpus="0-3,8-11")
    after = carried_out(host, wide)
    assert after.memory == allotted(planned(SimulatedHost(numa(8, 2)), wide, NEWEST)).memory
    assert planned(host, wide, NEWEST).empty


@pytest.mark.parametrize("first", ["llama", "vllm"])
def test_another_engine_keeps_the_cores_and_gets_its_own_threads_and_limit(first: str):
    processor = cores(16) if first == "llama" else cores(8, smt=2)
    found = facts(cores=processor, memory=64 * GIB)
    one, other = placement(WISH.model), paged(WISH.model)
    if first == "vllm":
        one, other = other, one
    host = SimulatedHost(found)
    before = carried_out(host, one)
    after, fresh = allotted(planned(host, other)), allotted(planned(SimulatedHost(found), other))
    assert (after.cpuset, after.kept) == (before.cpuset, True)
    assert (after.threads, after.threads_batch) == (fresh.threads, fresh.threads_batch)
    assert after.memory == fresh.memory != before.memory
