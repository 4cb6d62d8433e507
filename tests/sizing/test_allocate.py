"""What a model gets: memory within its host and its NUMA node, warnings before anything is fetched."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import DoesNotFit, NotYet
from cpudeploy.sizing import allocate
from cpudeploy.types.deployment import HostPath, Reserve
from cpudeploy.types.facts import Mark, Node
from tests.factories import GIB, container, cores, deployment, facts, placement, playbooks, resolved, shape

from .machines import numa


def allocations(host, *placements, known=None, reserve=None):
    wanted = deployment(*placements)
    if reserve is not None:
        one = msgspec.structs.replace(wanted.hosts["one"], reserve=reserve)
        wanted = msgspec.structs.replace(wanted, hosts={"one": one})
    return allocate(wanted, "one", host, known or resolved(*placements), playbooks())


def only(host, wanted=None, **more):
    (allocation,) = allocations(host, wanted or placement(), **more).values()
    return allocation


class TestNodes:
    def test_memory_comes_from_the_node_where_the_cores_are(self):
        found = allocations(numa(4, 2), placement("a", cpus="numa:1"), placement("b", port=8101))
        assert (found["a"].mems, found["b"].mems) == ("1", "0")

    def test_one_node_binds_nobody(self):
        assert only(facts()).mems == ""

    def test_cores_in_two_nodes_bind_nobody_and_are_told(self):
        found = only(numa(4, 2))
        assert found.mems == ""
        assert any("NUMA nodes 0-1" in warning for warning in found.warnings)

    def test_a_node_that_is_too_small_is_not_bound_and_told(self):
        found = only(numa(4, 2, memory=GIB), placement(cpus="numa:0", memory=GIB))
        assert found.mems == ""
        assert any("spans NUMA nodes" in warning for warning in found.warnings)

    def test_two_models_on_a_node_that_holds_one(self):
        one = only(numa(4, 2), placement(cpus="numa:0"))
        host = numa(4, 2, memory=one.memory + GIB // 4)
        both = (placement("a", cpus="cores:2"), placement("b", cpus="cores:2", port=8101))
        assert sorted(each.mems for each in allocations(host, *both).values()) == ["", "0"]

    def test_what_another_deployment_is_bound_to_is_not_there(self):
        theirs = container("x", mark=Mark(schema=1, deployment="theirs", model="x", instance=0, release="1"))
        theirs = msgspec.structs.replace(theirs, cpuset="0", cpuset_mems="0", memory=15 * GIB)
        host = msgspec.structs.replace(numa(4, 2), containers={"theirs_x_0": theirs})
        found = only(host, placement(cpus="numa:0", memory=2 * GIB))
        assert found.mems == ""

    def test_a_node_without_memory_is_no_place_to_bind_to(self):
        host = numa(4, 2)
        nodes = (Node(id=0, memory=16 * GIB), Node(id=1, memory=0), Node(id=2, memory=16 * GIB))
        host = msgspec.structs.replace(host, memory=msgspec.structs.replace(host.memory, nodes=nodes))
        assert only(host, placement(cpus="numa:1")).mems == ""

    def test_cores_that_no_node_lists_bind_nobody_and_no_such_node_is_told(self):
        host = numa(4, 2)
        lost = tuple(msgspec.structs.replace(core, node=-1) for core in host.cpu.cores)
        host = msgspec.structs.replace(host, cpu=msgspec.structs.replace(host.cpu, cores=lost))
        found = only(host)
        assert found.mems == ""
        assert "no NUMA node lists" in found.reasons["mems"]
        assert not any("-1" in text for text in (*found.reasons.values(), *found.warnings))


class TestRoom:
    def test_the_reserve_of_the_manifest_is_left(self):
        need = only(facts()).memory
        assert only(facts(memory=need + GIB), reserve=Reserve(memory=GIB))
        with pytest.raises(DoesNotFit):
            only(facts(memory=need + GIB - 1), reserve=Reserve(memory=GIB))

    def test_another_deployments_stopped_container_keeps_its_memory(self):
        mark = Mark(schema=1, deployment="theirs", model="x", instance=0, release="1")
        theirs = container("x", mark=mark, memory=15 * GIB, running=False, cpuset="")
        with pytest.raises(DoesNotFit):
            only(facts(containers={"theirs_x_0": theirs}), placement(memory=GIB))

    def test_a_strangers_stopped_one_does_not(self):
        theirs = container("x", mark=None, memory=15 * GIB, running=False, cpuset="")
        assert only(facts(containers={"x": theirs}), placement(memory=GIB))


def test_a_chat_model_without_a_template_is_told():
    silent = resolved(placement(), shape=shape(chat_template=False))
    (warning,) = only(facts(), known=silent).warnings
    assert "chat template" in warning


@pytest.mark.parametrize("known", [True, None])
def test_one_with_a_template_or_of_which_nobody_knows_is_not(known):
    assert only(facts(), known=resolved(placement(), shape=shape(chat_template=known))).warnings == ()


def test_three_models_on_two_cores_are_refused_with_two_ways_out():
    three = [placement(name, port=8100 + i) for i, name in enumerate("abc")]
    with pytest.raises(DoesNotFit) as raised:
        allocations(facts(cores=cores(2)), *three)
    assert "`cpus: shared`" in raised.value.do
    assert "another host" in raised.value.do


def test_a_context_the_model_does_not_know_names_the_model_among_several():
    with pytest.raises(DoesNotFit) as raised:
        allocations(facts(), placement("a"), placement("b", port=8101, context=1_000_000))
    assert "context 1000000 of b " in raised.value.what


def test_every_number_has_its_reason():
    found = only(facts())
    told = {part for part in ("weights", "kv", "compute", "engine") if getattr(found.need, part)}
    assert {"cpus", "threads", "threads_batch", "limit", "mems", *told} <= found.reasons.keys()
    assert "30 layers × 3 heads × (64 + 64)" in found.reasons["kv"]


def test_a_file_that_nobody_can_read_needs_its_memory_said():
    wish = placement("lies-there", source=HostPath(path="/srv/m.gguf"))
    known = resolved(wish, shape=None, tensors=None)
    with pytest.raises(NotYet) as caught:
        allocate(deployment(wish), "one", facts(), known, playbooks())
    assert caught.value.where == "one lies-there"
    assert "can't be read from here" in caught.value.what
    assert "memory" in caught.value.do
    said = msgspec.structs.replace(wish, memory=2 * GIB)
    assert allocate(deployment(said), "one", facts(), known, playbooks())["lies-there"].memory == 2 * GIB
