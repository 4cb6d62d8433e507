"""Sources that contradict each other or say nothing: which one is believed, and that it is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cpudeploy.types.base import Unknown
from cpudeploy.types.facts import Core, Facts

from .trees import Tree

CPU = "sys/devices/system/cpu"
GIB_KIB = 1 << 20


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Four cores with two threads each, one socket, 16 GiB, no limits."""
    tree = Tree(tmp_path)
    tree.cpus([((core, core + 4), 0, core) for core in range(4)])
    tree.memory(16 * GIB_KIB)
    tree.cgroup(2, "/", {})
    return tree


def cores_of(facts: Facts) -> list[tuple[int, ...]]:
    assert isinstance(facts.cpu.cores, tuple)
    return [core.cpus for core in facts.cpu.cores]


def cpuinfo(*entries: tuple[int, int, int], siblings: int, cores: int) -> str:
    """(processor, socket, core)."""
    return "\n".join(
        f"processor\t: {cpu}\nmodel name\t: X\nphysical id\t: {socket}\nsiblings\t: {siblings}\n"
        f"core id\t\t: {core}\ncpu cores\t: {cores}\nflags\t\t: fpu avx2\n"
        for cpu, socket, core in entries
    )


def test_nothing_to_note_on_a_sound_machine(tree: Tree) -> None:
    assert tree.facts().notes == ()


def test_what_lxcfs_numbers_anew_is_not_believed(tree: Tree) -> None:
    tree.write(f"{CPU}/online", "0-2")
    tree.write("proc/self/status", "Cpus_allowed_list:\t1,4,6\n")
    tree.write("proc/cpuinfo", cpuinfo((0, 0, 0), siblings=8, cores=4))
    facts = tree.facts()
    assert facts.cpu.usable == (1, 4, 6)
    assert cores_of(facts) == [(1,), (4,), (6,)]
    assert any("4,6" in note and "believed" in note for note in facts.notes)
    assert any("/proc/cpuinfo lists 1 CPUs" in note for note in facts.notes)


def test_an_affinity_that_allows_what_may_come_counts_what_is_there(tree: Tree) -> None:
    tree.write("proc/self/status", "Cpus_allowed_list:\t0-127\n")
    facts = tree.facts()
    assert facts.cpu.usable == tuple(range(8))
    assert facts.notes == ()


def test_processors_that_have_none_in_common_are_unknown(tree: Tree) -> None:
    tree.cgroup(2, "/", {"cpuset.cpus.effective": "5-7"})
    tree.write("proc/self/status", "Cpus_allowed_list:\t0-3\n")
    cpu = tree.facts().cpu
    assert isinstance(cpu.usable, Unknown) and "none in common" in cpu.usable.unknown
    assert isinstance(cpu.cores, Unknown)


def test_without_a_topology_in_sys_cpuinfo_is_believed(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "sys/devices")
    entries = [(cpu, cpu // 4, cpu % 2) for cpu in range(8)]
    tree.write("proc/cpuinfo", cpuinfo(*entries, siblings=4, cores=2))
    facts = tree.facts()
    assert cores_of(facts) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert (facts.cpu.online, facts.cpu.sockets) == (8, 2)
    assert any("/proc/cpuinfo is believed" in note for note in facts.notes)


def test_as_many_siblings_as_cores_is_no_smt(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "sys/devices")
    text = "".join(f"processor : {cpu}\nsiblings : 4\ncpu cores : 4\n\n" for cpu in range(4))
    tree.write("proc/cpuinfo", text)
    assert cores_of(tree.facts()) == [(0,), (1,), (2,), (3,)]


def test_a_list_that_says_itself_that_it_is_not_whole_counts_nothing(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "sys/devices")
    tree.write("proc/cpuinfo", cpuinfo((0, 0, 0), siblings=8, cores=4))
    tree.write("proc/self/status", "Name:\tsh\n")
    assert isinstance(tree.facts().cpu.usable, Unknown)


def test_where_nothing_tells_who_shares_a_core_the_processors_are_known_all_the_same(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "sys/devices")
    tree.write("proc/cpuinfo", "".join(f"processor : {cpu}\nFeatures : fp\n\n" for cpu in range(8)))
    tree.write("proc/self/status", "Cpus_allowed_list:\t2-5\n")
    cpu = tree.facts().cpu
    assert (cpu.usable, cpu.online) == ((2, 3, 4, 5), 8)
    assert isinstance(cpu.cores, Unknown)


def test_four_threads_a_core_are_made_up_on_a_pc_and_real_on_a_xeon_phi(tree: Tree) -> None:
    quads = [(tuple(range(core, 16, 4)), 0, core) for core in range(4)]
    tree.cpus(quads)
    facts = tree.facts()
    assert isinstance(facts.cpu.cores, Unknown) and "4 threads" in facts.cpu.cores.unknown
    assert facts.cpu.usable == tuple(range(16))
    tree.cpus(quads, model="Intel(R) Xeon Phi(TM) CPU 7210")
    assert len(cores_of(tree.facts())) == 4


def test_sockets_of_one_core_are_noted(tree: Tree) -> None:
    tree.cpus([((cpu,), cpu, 0) for cpu in range(32)])
    facts = tree.facts()
    assert (facts.cpu.sockets, len(cores_of(facts))) == (32, 32)
    assert any("32 sockets" in note for note in facts.notes)


def test_sockets_that_books_number_anew_are_told_apart(tree: Tree) -> None:
    tree.write("machine", "s390x")
    tree.cpus([((cpu,), 0, 0) for cpu in range(4)])
    for cpu in range(4):
        tree.write(f"{CPU}/cpu{cpu}/topology/book_id", str(cpu // 2))
        tree.write(f"{CPU}/cpu{cpu}/topology/drawer_id", "0")
    assert tree.facts().cpu.sockets == 2


def test_isolated_processors_are_noted(tree: Tree) -> None:
    tree.write(f"{CPU}/isolated", "2,3,6-7")
    tree.write("proc/self/status", "Cpus_allowed_list:\t0-1,4-5\n")
    facts = tree.facts()
    assert cores_of(facts) == [(0, 4), (1, 5)]
    assert any("2-3,6-7 are isolated" in note for note in facts.notes)


def test_programs_of_32_bits_on_a_kernel_of_64(tree: Tree) -> None:
    tree.write("machine", "aarch64")
    tree.write("long-bit", "32")
    facts = tree.facts()
    assert facts.os.arch == "arm"
    assert any("32 bits" in note for note in facts.notes)


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_every_shell_reads_a_machine_with_everything(tree: Tree, shell: str) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"no {shell} here")
    tree.cpus([((0, 1), 0, 0), ((2,), 0, 2), ((11,), 1, 0)], affinity=(0, 1, 2, 11, 12))
    tree.write(f"{CPU}/cpu12/online", "0")
    tree.write("sys/devices/cpu_core/cpus", "0-1,11\n")
    tree.write("sys/devices/cpu_atom/cpus", "2\n")
    tree.write(f"{CPU}/isolated", "12")
    node(tree, 0, 8, "0-2", free=1)
    node(tree, 9, 4, "11")
    node(tree, 250, 4, "")
    tree.cgroup(2, "/user.slice", {"user.slice/cpu.max": "150000 100000"})
    tree.write("sys/fs/cgroup/user.slice/cpu.stat", "nr_periods 10\nnr_throttled 1\n")
    facts = tree.facts(shell=shell)
    assert facts.cpu.cores == (
        Core(cpus=(0, 1), socket=0, node=0, speed=3),
        Core(cpus=(2,), socket=0, node=0, speed=2),
        Core(cpus=(11,), socket=1, node=9, speed=3),
    )
    assert (facts.cpu.quota, facts.cpu.throttled, facts.memory.total) == (1.5, 0.1, 12 << 30)
    assert len(facts.notes) == 3


def test_a_proc_without_ourselves_leaves_the_rest_known(tree: Tree) -> None:
    shutil.rmtree(tree.folder / "proc/self")
    facts = tree.facts()
    assert facts.cpu.usable == tuple(range(8))
    assert isinstance(facts.cpu.quota, Unknown)
    assert facts.memory.total == 16 << 30


# ---- Kinds of cores --------------------------------------------------------------------------------


def speeds(facts: Facts) -> list[int]:
    assert isinstance(facts.cpu.cores, tuple)
    return [core.speed for core in facts.cpu.cores]


def clock(tree: Tree, cpu: int, mhz: int) -> None:
    tree.write(f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq", str(mhz * 1000))


def test_favoured_cores_are_of_the_same_kind(tree: Tree) -> None:
    tree.cpus([((core,), 0, core) for core in range(4)])
    for cpu, mhz in enumerate((5200, 5000, 5000, 4900)):
        clock(tree, cpu, mhz)
    assert speeds(tree.facts()) == [0, 0, 0, 0]


def test_clocks_tell_kinds_apart_where_nothing_else_does(tree: Tree) -> None:
    tree.cpus([((core,), 0, core) for core in range(4)])
    for cpu, mhz in enumerate((5000, 5200, 3900, 3900)):
        clock(tree, cpu, mhz)
    assert speeds(tree.facts()) == [5200, 5200, 3900, 3900]


def test_the_kernels_kinds_are_believed_before_clocks_that_are_close(tree: Tree) -> None:
    tree.cpus([((core,), 0, core) for core in range(6)])
    tree.write("sys/devices/cpu_core/cpus", "0-1")
    tree.write("sys/devices/cpu_atom/cpus", "2-5")
    for cpu, mhz in enumerate((4900, 4800, 4400, 4400, 2500, 2500)):
        clock(tree, cpu, mhz)
    assert speeds(tree.facts()) == [4900, 4900, 4400, 4400, 2500, 2500]


def test_kinds_without_clocks_have_an_order(tree: Tree) -> None:
    tree.cpus([((0, 1), 0, 0), ((2,), 0, 1), ((3,), 0, 2)])
    tree.write("sys/devices/cpu_core/cpus", "0-1")
    tree.write("sys/devices/cpu_atom/cpus", "2")
    tree.write("sys/devices/cpu_lowpower/cpus", "3")
    fast, slow, slowest = speeds(tree.facts())
    assert fast > slow > slowest > 0


def test_capacity_counts_more_than_the_clock(tree: Tree) -> None:
    tree.cpus([((core,), 0, core) for core in range(4)])
    for cpu, (capacity, mhz) in enumerate(((530, 1800), (530, 1800), (1024, 1800), (990, 1800))):
        tree.write(f"{CPU}/cpu{cpu}/cpu_capacity", str(capacity))
        clock(tree, cpu, mhz)
    assert speeds(tree.facts()) == [530, 530, 1024, 1024]


def test_the_usable_cores_are_alike_when_only_one_kind_may_be_used(tree: Tree) -> None:
    tree.cpus([((core,), 0, core) for core in range(4)], affinity=(2, 3))
    for cpu, mhz in enumerate((5000, 5000, 3900, 3900)):
        clock(tree, cpu, mhz)
    facts = tree.facts()
    assert facts.cpu.cores == (Core(cpus=(2,), socket=0, node=0), Core(cpus=(3,), socket=0, node=0))


# ---- Limits --------------------------------------------------------------------------------------------


def test_how_often_a_quota_was_used_up(tree: Tree) -> None:
    tree.cgroup(2, "/a", {"a/cpu.max": "150000 100000"})
    tree.write("sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_periods 200\nnr_throttled 50\n")
    cpu = tree.facts().cpu
    assert (cpu.quota, cpu.throttled) == (1.5, 0.25)


def test_a_quota_of_the_login_is_kept_to_and_named(tree: Tree) -> None:
    tree.cgroup(2, "/user.slice/user-1000.slice", {"user.slice/user-1000.slice/cpu.max": "200000 100000"})
    facts = tree.facts()
    assert facts.cpu.quota == 2.0
    assert any("login" in note for note in facts.notes)


def test_what_narrows_the_engines_place_narrows_containers(tree: Tree) -> None:
    files = {
        "system.slice/cpuset.cpus.effective": "0-1,4-5",
        "system.slice/docker.service/cpu.max": "9 100000",
    }
    tree.cgroup(2, "/user.slice", files)
    tree.write("var/run/docker.pid", "812")
    tree.write("proc/812/cgroup", "0::/system.slice/docker.service\n")
    cpu = tree.facts().cpu
    assert cpu.usable == (0, 1, 4, 5)
    assert cpu.quota is None, "the engine's own limit is not its containers'"


def test_both_versions_beside_each_other_are_both_read(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "2:cpu,cpuacct:/x\n1:name=systemd:/x\n0::/y\n")
    tree.write(
        "proc/self/mountinfo",
        "31 20 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 20 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    )
    tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000")
    tree.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000")
    tree.write("sys/fs/cgroup/unified/y/memory.max", str(4 << 30))
    facts = tree.facts()
    assert (facts.cpu.quota, facts.memory.limit) == (3.0, 4 << 30)


# ---- Memory --------------------------------------------------------------------------------------------


def node(tree: Tree, number: int, gib: int, cpus: str, *, free: int = 0, huge: int = 0) -> None:
    at = f"sys/devices/system/node/node{number}"
    tree.write(
        f"{at}/meminfo",
        f"Node {number} MemTotal: {gib * GIB_KIB} kB\nNode {number} MemFree: {free * GIB_KIB} kB\n"
        f"Node {number} HugePages_Total: {huge}\n",
    )
    tree.write(f"{at}/cpulist", cpus + "\n")


def test_memory_without_processors_is_not_planned_with(tree: Tree) -> None:
    node(tree, 0, 12, "0-7", free=8)
    node(tree, 250, 4, "", free=3)
    facts = tree.facts()
    memory = facts.memory
    assert (memory.machine, memory.total, memory.available) == (16 << 30, 12 << 30, 9 << 30)
    assert isinstance(memory.nodes, tuple) and [each.id for each in memory.nodes] == [0, 250]
    assert any("node 250 has 4.0 GiB" in note for note in facts.notes)


def test_memory_without_processors_counts_where_processors_have_none(tree: Tree) -> None:
    node(tree, 0, 16, "")
    node(tree, 1, 0, "0-7")
    facts = tree.facts()
    assert facts.memory.total == 16 << 30
    assert any("counted" in note for note in facts.notes)


@pytest.mark.parametrize("forbidden_by", ["affinity", "cpuset"])
def test_memory_of_nodes_we_may_not_use_is_left_out(tree: Tree, forbidden_by: str) -> None:
    node(tree, 0, 8, "0-3")
    node(tree, 1, 8, "4-7")
    if forbidden_by == "affinity":
        tree.write("proc/self/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n")
    else:
        tree.cgroup(2, "/a", {"a/cpuset.mems.effective": "0"})
    facts = tree.facts()
    assert facts.memory.total == 8 << 30
    assert any("may not be used" in note for note in facts.notes)


@pytest.mark.parametrize("counted", ["Hugetlb: 4194304 kB\n", ""], ids=["every size", "the default size"])
def test_huge_pages_set_aside_are_gone(tree: Tree, counted: str) -> None:
    tree.write(
        "proc/meminfo",
        f"MemTotal: {16 * GIB_KIB} kB\nMemAvailable: {10 * GIB_KIB} kB\nSwapTotal: 0 kB\n"
        f"HugePages_Total: 2048\nHugepagesize: 2048 kB\n{counted}",
    )
    node(tree, 0, 8, "0-3", huge=2048)
    node(tree, 1, 8, "4-7")
    facts = tree.facts()
    memory = facts.memory
    assert (memory.machine, memory.total, memory.huge_pages) == (16 << 30, 12 << 30, 4 << 30)
    assert isinstance(memory.nodes, tuple)
    assert [each.memory for each in memory.nodes] == [4 << 30, 8 << 30]
    assert any("huge pages" in note for note in facts.notes)


def test_nodes_that_hold_half_of_the_memory_are_noted(tree: Tree) -> None:
    node(tree, 1, 8, "1,3,5,7")
    facts = tree.facts()
    assert facts.memory.total == 16 << 30
    assert isinstance(facts.cpu.cores, tuple)
    assert [core.node for core in facts.cpu.cores] == [-1, 1, -1, 1]
    assert any("8.0 GiB of the machine's 16.0" in note for note in facts.notes)
