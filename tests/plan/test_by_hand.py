"""What was written by hand, planned and carried out: memory and cores follow it, and then there is peace."""

from __future__ import annotations

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from cpudeploy.types.deployment import Placement
from cpudeploy.types.facts import Facts
from cpudeploy.types.plan import HostPlan, Plan
from cpudeploy.types.release import read_release
from cpudeploy.types.shape import AttentionLayers
from tests.engines import BOOKS, both, known, paged, small
from tests.factories import GIB, cores, facts
from tests.simulated import SimulatedHost
from tests.sizing.machines import numa


def planned(wish: Placement, found: Facts) -> Plan:
    return make_plan(both(wish), BOOKS, {"one": found}, known(wish), origin="here")


def of_host(wish: Placement, found: Facts) -> HostPlan:
    return planned(wish, found).hosts["one"]


def applied(wish: Placement, host: SimulatedHost) -> None:
    plan = planned(wish, host.facts())
    assert not plan.hosts["one"].unknown
    execute(plan, lambda _: host, lambda event: None)


def test_a_larger_cache_by_hand_gets_its_memory_and_a_second_plan_is_empty():
    host = SimulatedHost(facts(memory=64 * GIB))
    applied(paged(kv=4 * GIB), host)
    assert of_host(paged(kv=4 * GIB), host.facts()).changes == ()
    before = host.facts().containers["rag_full_0"].memory
    applied(paged(kv=8 * GIB), host)
    assert host.facts().containers["rag_full_0"].memory >= before + 4 * GIB
    assert of_host(paged(kv=8 * GIB), host.facts()).changes == ()


def test_the_server_is_told_the_cache_that_was_counted():
    host = SimulatedHost(facts(memory=64 * GIB))
    applied(paged(kv=5 * GIB), host)
    release = read_release(max(host.facts().releases["rag"].items())[1])
    assert release is not None
    command = release.instances["rag_full_0"].container.command
    assert command[command.index("--kv-cache-memory-bytes") + 1] == str(5 * GIB)


def test_threads_that_nobody_binds_run_on_the_models_own_cores_and_are_counted():
    host = SimulatedHost(facts(cores=cores(4, smt=2), memory=64 * GIB))
    applied(paged(bind="nobind"), host)
    release = read_release(max(host.facts().releases["rag"].items())[1])
    assert release is not None
    spec = release.instances["rag_full_0"].container
    assert spec.env["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert int(spec.env["OMP_NUM_THREADS"]) == release.instances["rag_full_0"].threads <= 4


def test_two_lists_by_hand_are_two_ranks():
    host = numa(4, 2)
    nodes: dict[int, list[int]] = {}
    assert isinstance(host.cpu.cores, tuple)
    for core in host.cpu.cores:
        nodes.setdefault(core.node, []).append(core.cpus[0])
    bind = "|".join(f"{min(cpus)}-{max(cpus)}" for _, cpus in sorted(nodes.items()))
    every = ",".join(bind.split("|"))
    (allocation,) = of_host(paged(cpus=every, bind=bind), host).allocations
    assert allocation.ranks == 2


def test_lists_that_do_not_fit_are_told_before_anything_is_done():
    plan = of_host(paged(cpus="0-1", bind="0-1|2-3"), facts(cores=cores(4), memory=64 * GIB))
    assert "binds threads of 2 ranks, and the model runs as 1" in plan.unknown
    plan = of_host(paged(cpus="0-1", bind="2-3"), facts(cores=cores(4), memory=64 * GIB))
    assert "bound to CPUs 2-3, and the model runs on 0-1" in plan.unknown
    assert plan.changes == ()


def test_more_ranks_than_heads_can_be_dealt_out_to_are_refused():
    odd = small(heads=15, attention=(AttentionLayers(layers=28, kv_heads=5, key_length=64, value_length=64),))
    wish = paged(cpus="0-3,4-7", bind="0-3|4-7")
    plan = make_plan(both(wish), BOOKS, {"one": numa(4, 2)}, known(wish, shape=odd), origin="here")
    assert "15 heads can't be dealt out" in plan.hosts["one"].unknown
