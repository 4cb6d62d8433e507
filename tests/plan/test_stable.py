"""On any machine, with models of both engines: what runs stays as it is when models come and go, a second plan
is empty, and nobody gets what is not there. Plans go through the real runner onto a simulated host."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from cpudeploy.types.base import Unknown, from_json, to_json
from cpudeploy.types.cpulist import parse_cpulist
from cpudeploy.types.deployment import Deployment, Placement, Reserve
from cpudeploy.types.facts import Core, Facts, Node
from cpudeploy.types.plan import HostPlan, Plan
from tests.engines import BOOKS, both, known
from tests.factories import GIB, facts, placement
from tests.simulated import SimulatedHost

MIB = 1 << 20
thorough = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@st.composite
def machines(draw) -> Facts:
    """Nodes, SMT, slow cores, quotas, topologies that are not told; holes in the CPUs' numbers."""
    nodes = draw(st.integers(1, 4))
    threads = draw(st.sampled_from([1, 2, 4]))
    slow = draw(st.booleans())
    step = draw(st.sampled_from([1, 2]))
    cores, cpu = [], draw(st.integers(0, 3))
    for node in range(nodes):
        for position in range(draw(st.integers(1, 12))):
            speed = (700 if position % 3 else 1000) if slow else 0
            count = 1 if speed == 700 else threads
            cores.append(
                Core(cpus=tuple(range(cpu, cpu + count * step, step)), socket=node, node=node, speed=speed)
            )
            cpu += count * step
    usable = tuple(sorted(cpu for core in cores for cpu in core.cpus))
    found = facts(cores=tuple(cores), memory=draw(st.integers(1, 64)) * GIB)
    each = tuple(
        Node(
            id=node,
            memory=found.memory.total // nodes if node or draw(st.booleans()) else 0,
            cpus=tuple(cpu for core in cores if core.node == node for cpu in core.cpus),
        )
        for node in range(nodes)
    )
    told = Unknown(unknown="masked") if draw(st.integers(0, 4)) == 0 else tuple(cores)
    quota = draw(st.none() | st.floats(0.2, len(usable) * 1.5))
    return msgspec.structs.replace(
        found,
        cpu=msgspec.structs.replace(found.cpu, cores=told, usable=usable, quota=quota),
        memory=msgspec.structs.replace(found.memory, nodes=each),
    )


wishes = st.sampled_from(
    ["auto", "auto", "auto", "shared", "cores:1", "cores:2", "cores:5", "numa:0", "numa:1"]
)


@st.composite
def models(draw, most: int = 4) -> list[Placement]:
    """Up to `most` models, each asking for something else."""
    return [
        placement(
            f"m{i}",
            backend=draw(st.sampled_from(["llama", "vllm"])),
            port=8100 + i,
            cpus=draw(wishes),
            context=draw(st.sampled_from([512, 2048, 8192])),
            parallel=draw(st.sampled_from([1, 4])),
        )
        for i in range(draw(st.integers(1, most)))
    ]


reserves = st.builds(Reserve, cpus=st.none() | st.integers(0, 3), memory=st.none() | st.just(GIB))


def wanted(placements: list[Placement], reserve: Reserve) -> Deployment:
    base = both(*placements)
    one = msgspec.structs.replace(base.hosts["one"], reserve=reserve)
    return msgspec.structs.replace(base, hosts={"one": one})


def planned(house: Deployment, host: SimulatedHost, *, repack: bool = False) -> Plan:
    found = known(*house.placements)
    plan = make_plan(house, BOOKS, {"one": host.facts()}, found, origin="here", repack=repack)
    return from_json(to_json(plan), Plan)


def serve(house: Deployment, host: SimulatedHost, *, repack: bool = False) -> HostPlan:
    """Plan and apply; a host with too little room is no example of anything."""
    plan = planned(house, host, repack=repack)
    assume(not plan.hosts["one"].unknown)
    within(house, host.facts(), plan.hosts["one"])
    outcome = execute(plan, lambda _: host, lambda event: None)
    assert outcome.hosts["one"].status in ("done", "unchanged"), outcome.hosts["one"]
    return plan.hosts["one"]


def within(house: Deployment, found: Facts, plan: HostPlan) -> None:
    """Nobody gets what is not there, and nobody what another has."""
    reserve = house.hosts["one"].reserve
    left = 384 * MIB if reserve.memory is None else reserve.memory
    wish = {each.model: each.cpus for each in house.placements}
    assert sum(each.memory for each in plan.allocations) <= found.memory.total - left
    cpus = {each.model: parse_cpulist(each.cpuset) for each in plan.allocations}
    for each in plan.allocations:
        assert each.need.total <= each.memory
        assert cpus[each.model] <= set(found.cpu.usable)
        assert 1 <= each.threads <= each.threads_batch <= len(cpus[each.model])
        if found.cpu.quota is not None:
            assert each.threads <= max(each.ranks, found.cpu.quota)
    for one, other in itertools.combinations(plan.allocations, 2):
        both_share = wish[one.model] == wish[other.model] == "shared"
        assert both_share or cpus[one.model].isdisjoint(cpus[other.model])
    mems = {each.model: parse_cpulist(each.mems) for each in plan.allocations if each.mems}
    for node in found.memory.nodes:
        there = [each for each in plan.allocations if node.id in mems.get(each.model, ())]
        assert sum(each.memory // each.ranks for each in there) <= node.memory
    for each in plan.allocations:
        assert not each.mems or each.ranks == len(mems[each.model])
        assert each.need.kv % each.ranks == 0
    assert {node for nodes in mems.values() for node in nodes} <= {node.id for node in found.memory.nodes}


def specs(host: SimulatedHost) -> dict[str, object]:
    """Container → what it was created from."""
    found = host.facts()
    return {
        name: (container.id, container.cpuset, container.cpuset_mems, container.memory, container.mark)
        for name, container in found.containers.items()
    }


def some(data: st.DataObject, placements: list[Placement]) -> list[Placement]:
    """One of them at least, in their order."""
    chosen = data.draw(st.sets(st.integers(0, len(placements) - 1), min_size=1))
    return [placements[i] for i in sorted(chosen)]


@thorough
@given(machines(), models(), reserves)
def test_a_second_plan_is_empty(machine, placements, reserve):
    house = wanted(placements, reserve)
    host = SimulatedHost(machine)
    serve(house, host)
    assert planned(house, host).empty


@thorough
@given(machines(), models(5), reserves, st.data())
def test_models_that_come_change_none_that_runs(machine, placements, reserve, data):
    first = some(data, placements)
    host = SimulatedHost(machine)
    serve(wanted(first, reserve), host)
    before = specs(host)
    more = wanted(placements, reserve)
    serve(more, host)
    after = specs(host)
    assert {name: after[name] for name in before} == before
    assert planned(more, host).empty


@thorough
@given(machines(), models(5), reserves, st.data())
def test_models_that_go_change_none_that_stays(machine, placements, reserve, data):
    host = SimulatedHost(machine)
    serve(wanted(placements, reserve), host)
    before = specs(host)
    stay = some(data, placements)
    rest = wanted(stay, reserve)
    serve(rest, host)
    after = specs(host)
    assert after == {name: before[name] for name in after}
    assert planned(rest, host).empty


@thorough
@given(machines(), models(5), reserves, st.data())
def test_repacking_gives_what_a_bare_host_would_get_and_then_rests(machine, placements, reserve, data):
    host = SimulatedHost(machine)
    first = some(data, placements)
    serve(wanted(first, reserve), host)
    house = wanted(placements, reserve)
    dealt = serve(house, host, repack=True)
    bare = planned(house, SimulatedHost(machine)).hosts["one"]
    numbers = [(each.cpuset, each.mems, each.threads, each.memory) for each in dealt.allocations]
    assert numbers == [(each.cpuset, each.mems, each.threads, each.memory) for each in bare.allocations]
    assert planned(house, host).empty
    assert planned(house, host, repack=True).empty
