"""Processors, memory and limits of machines this one is not: the real script on made-up trees."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cpudeploy.types.base import Unknown
from cpudeploy.types.facts import Core, Node

from .trees import Tree

GIB_KIB = 1 << 20
GIB = 1 << 30


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Four cores, one socket, 16 GiB, no limits."""
    tree = Tree(tmp_path)
    tree.cpus([((cpu,), 0, cpu) for cpu in range(4)])
    tree.memory(16 * GIB_KIB, [(0, 16 * GIB_KIB, range(4))])
    tree.cgroup(2, "/user.slice", {"user.slice/cpu.max": "max 100000", "user.slice/memory.max": "max"})
    return tree


def cpus_of(cores: tuple[Core, ...] | Unknown) -> list[tuple[int, ...]]:
    assert isinstance(cores, tuple)
    return [core.cpus for core in cores]


def test_two_sockets_with_smt(tree: Tree) -> None:
    tree.cpus([((core, core + 8), core // 4, core % 4) for core in range(8)])
    tree.memory(
        64 * GIB_KIB,
        [(0, 32 * GIB_KIB, (0, 1, 2, 3, 8, 9, 10, 11)), (1, 32 * GIB_KIB, (4, 5, 6, 7, 12, 13, 14, 15))],
    )
    cpu = tree.facts().cpu
    assert cpu.cores == tuple(
        Core(cpus=(core, core + 8), socket=core // 4, node=core // 4) for core in range(8)
    )
    assert (cpu.online, cpu.quota, cpu.model) == (16, None, "Example CPU")


def test_many_processors_are_in_number_order_whatever_the_shell_lists_first(tree: Tree) -> None:
    tree.cpus([((cpu,), 0, cpu) for cpu in range(120)])
    assert cpus_of(tree.facts().cpu.cores) == [(cpu,) for cpu in range(120)]


def test_only_processors_we_may_use_count(tree: Tree) -> None:
    tree.cpus([((core, core + 4), 0, core) for core in range(4)], affinity=(1, 2, 6))
    cpu = tree.facts().cpu
    assert cpus_of(cpu.cores) == [(1,), (2, 6)]
    assert cpu.online == 8


def test_off_line_processors_are_no_cores(tree: Tree) -> None:
    tree.cpus([((core, core + 1), 0, core) for core in range(0, 8, 2)], online=(2, 4, 6))
    cpu = tree.facts().cpu
    assert cpus_of(cpu.cores) == [(2,), (4,), (6,)]
    assert cpu.online == 3


def test_a_cpuset_narrows_what_affinity_allows(tree: Tree) -> None:
    tree.cgroup(
        2,
        "/a/b",
        {
            "a/cpuset.cpus.effective": "0-2",
            "a/b/cpuset.cpus.effective": "1-3",
            "a/b/cpuset.cpus": "",
        },
    )
    assert cpus_of(tree.facts().cpu.cores) == [(1,), (2,)]


def test_a_cpuset_that_asked_for_what_is_gone_has_what_the_kernel_gives_it(tree: Tree) -> None:
    tree.cgroup(2, "/a", {"a/cpuset.cpus.effective": "0-2", "a/cpuset.cpus": "64-71"})
    assert cpus_of(tree.facts().cpu.cores) == [(0,), (1,), (2,)]


def test_core_ids_that_repeat_on_one_socket_are_told_apart_by_siblings(tree: Tree) -> None:
    tree.cpus([((0, 1), 0, 0), ((2, 3), 0, 0)])
    assert cpus_of(tree.facts().cpu.cores) == [(0, 1), (2, 3)]


def test_a_core_with_a_hundred_threads_is_unknown(tree: Tree) -> None:
    tree.cpus([(tuple(range(112)), 0, 0)])
    facts = tree.facts()
    assert isinstance(facts.cpu.cores, Unknown) and "112 threads" in facts.cpu.cores.unknown
    assert any("112 threads" in note for note in facts.notes)
    assert facts.cpu.usable == tuple(range(112))


def test_processors_without_topology_are_unknown(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "sys/devices/system/cpu/cpu2")
    assert isinstance(tree.facts().cpu.cores, Unknown)


def test_flags_are_those_all_core_types_have(tree: Tree) -> None:
    tree.cpus(
        [((cpu,), 0, cpu) for cpu in range(4)],
        flags={0: "fpu avx2 avx512f", 1: "avx2 fpu", 2: "fpu avx2", 3: "fpu avx2"},
    )
    assert tree.facts().cpu.flags == ("avx2", "fpu")


def test_an_arm_machine_says_features_and_no_model(tree: Tree) -> None:
    tree.write("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n")
    tree.write("machine", "aarch64")
    facts = tree.facts()
    assert facts.cpu.flags == ("asimd", "fp")
    assert isinstance(facts.cpu.model, Unknown)
    assert facts.os.arch == "arm64"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"a/cpu.max": "max 100000", "a/b/cpu.max": "150000 100000"}, 1.5),
        ({"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}, 0.5),
        ({"a/cpu.max": "400000 100000", "a/b/cpu.max": "765000 100000"}, 4.0),
        ({"a/cpu.max": "max 100000"}, None),
        ({}, None),
        ({"cpu.max": "200000 100000"}, 2.0),
    ],
)
def test_the_smallest_quota_on_the_path_holds(tree: Tree, files: dict[str, str], quota: float | None) -> None:
    tree.cgroup(2, "/a/b", files)
    cpu = tree.facts().cpu
    assert cpu.quota == quota
    assert len(cpus_of(cpu.cores)) == 4


def test_quota_and_limits_of_the_first_cgroup_version(tree: Tree) -> None:
    tree.cgroup(
        1,
        "/docker/0a",
        {
            "docker/cpu.cfs_quota_us": "-1",
            "docker/cpu.cfs_period_us": "100000",
            "docker/0a/cpu.cfs_quota_us": "765000",
            "docker/0a/cpu.cfs_period_us": "100000",
            "docker/0a/cpuset.cpus": "0-1",
            "docker/0a/memory.limit_in_bytes": str(2 * GIB),
            "docker/0a/memory.usage_in_bytes": str(GIB),
            "docker/0a/memory.stat": f"cache 1\ntotal_inactive_file {GIB // 2}\n",
            "docker/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    facts = tree.facts()
    assert facts.cpu.quota == 7.65
    assert cpus_of(facts.cpu.cores) == [(0,), (1,)]
    assert (facts.memory.limit, facts.memory.total) == (2 * GIB, 2 * GIB)
    assert facts.memory.available == GIB + GIB // 2
    assert facts.memory.machine == 16 * GIB


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_that_sees_the_hosts_path_finds_its_own_mount(tree: Tree, version: int) -> None:
    file = "memory.max" if version == 2 else "memory.limit_in_bytes"
    tree.cgroup(version, "/docker/0a/x", {f"x/{file}": str(3 * GIB)}, mount_root="/docker/0a")
    assert tree.facts().memory.limit == 3 * GIB


def test_a_path_outside_our_namespace_reads_the_mount_itself(tree: Tree) -> None:
    tree.cgroup(2, "/../../other", {"memory.max": str(GIB)})
    assert tree.facts().memory.limit == GIB


def test_without_a_cgroup_limits_are_unknown_not_none(tree: Tree) -> None:
    (tree.folder / "proc/self/cgroup").unlink()
    facts = tree.facts()
    assert isinstance(facts.cpu.quota, Unknown)
    assert isinstance(facts.memory.limit, Unknown)
    assert facts.memory.total == 16 * GIB


def test_memory_of_nodes_with_a_node_of_memory_only(tree: Tree) -> None:
    tree.memory(16 * GIB_KIB, [(0, 8 * GIB_KIB, (0, 1)), (1, 4 * GIB_KIB, (2, 3)), (2, 4 * GIB_KIB, ())])
    facts = tree.facts()
    assert facts.memory.nodes == tuple(
        Node(id=number, memory=size * GIB, cpus=cpus)
        for number, size, cpus in ((0, 8, (0, 1)), (1, 4, (2, 3)), (2, 4, ()))
    )
    assert isinstance(facts.cpu.cores, tuple)
    assert [core.node for core in facts.cpu.cores] == [0, 0, 1, 1]


def test_a_machine_without_nodes_is_one_node(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "sys/devices/system/node")
    facts = tree.facts()
    assert facts.memory.nodes == (Node(id=0, memory=16 * GIB),)
    assert isinstance(facts.cpu.cores, tuple)


def test_available_memory_and_swap(tree: Tree) -> None:
    memory = tree.facts().memory
    assert (memory.total, memory.available, memory.swap) == (16 * GIB, 12 * GIB, 1 << 20)
    assert memory.limit is None


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_every_shell_reads_the_same(tree: Tree, shell: str) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"no {shell} here")
    tree.write("proc/net/tcp", "  sl local\n   0: 0100007F:1F90 00000000:0000 0A 0 0 0\n")
    facts = tree.facts(shell=shell)
    assert (facts.cpu, facts.memory, facts.ports) == (
        tree.facts().cpu,
        tree.facts().memory,
        tree.facts().ports,
    )
