"""Every machine of a folder, read in two ways: each expected field holds or is unknown with why, never wrong.

The folder beside this file is always read; `CPUDEPLOY_MACHINES` names another one with more.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import pytest

from cpudeploy.errors import DoesNotFit
from cpudeploy.probe import parse
from cpudeploy.sizing.cores import Wish, share_cores
from cpudeploy.types.base import Unknown
from cpudeploy.types.capability import able
from cpudeploy.types.cpulist import parse_cpulist
from cpudeploy.types.facts import Facts

from .machines import Machine, build_tree, lscpu_document, read_machine

OWN = Path(__file__).parent / "machines"
MORE = os.environ.get("CPUDEPLOY_MACHINES", "")
FILES = [*sorted(OWN.glob("*.txt")), *(sorted(Path(MORE).glob("*.txt")) if MORE else ())]
ARCH_WORDS = {"x86_64": "amd64", "aarch64": "arm64", "loongarch64": "loong64"}

machines = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def facts_of(machine: Machine, source: str, folder: Path) -> Facts:
    if source == "lscpu":
        return parse(lscpu_document(machine), "h1")
    tree = build_tree(machine, folder)
    if tree is None:
        pytest.skip("the text does not say what this machine's kernel shows")
    return tree.facts()


def test_the_folder_named_has_machines() -> None:
    if not MORE:
        pytest.skip("CPUDEPLOY_MACHINES names no folder: only the project's own machines are read")
    assert len(FILES) > len(list(OWN.glob("*.txt")))


@pytest.mark.parametrize("source", ["lscpu", "kernel"])
@machines
def test_what_is_told_is_right(file: Path, source: str, tmp_path: Path) -> None:
    machine = read_machine(file)
    facts = facts_of(machine, source, tmp_path)
    wrong = [*_counts(machine, facts), *_flags(machine, facts), *_memory(machine, facts)]
    assert not wrong, (wrong, facts)
    for unknown in (
        facts.cpu.usable,
        facts.cpu.cores,
        facts.cpu.sockets,
        facts.cpu.flags,
        facts.memory.nodes,
    ):
        assert not isinstance(unknown, Unknown) or unknown.unknown


@pytest.mark.parametrize("file", sorted(OWN.glob("*.txt")), ids=lambda file: file.stem)
def test_what_a_kernel_shows_is_known(file: Path, tmp_path: Path) -> None:
    """Unknown is never wrong, so it is held against us here."""
    cpu = facts_of(read_machine(file), "kernel", tmp_path).cpu
    assert isinstance(cpu.usable, tuple) and isinstance(cpu.online, int)
    made_up_or_masked = file.stem in ("container-quota-46", "xen-dom0-112-threads-a-core")
    assert isinstance(cpu.cores, Unknown) == made_up_or_masked


@pytest.mark.parametrize("source", ["lscpu", "kernel"])
@machines
def test_sizing_runs_a_thread_on_every_core_that_is_worth_one(
    file: Path, source: str, tmp_path: Path
) -> None:
    machine = read_machine(file)
    facts = facts_of(machine, source, tmp_path)
    cpu = facts.cpu
    if isinstance(cpu.usable, Unknown):
        with pytest.raises(DoesNotFit):
            share_cores(facts, [Wish(name="m", cpus="auto")], reserve=0, pinned={})
        return
    share = share_cores(facts, [Wish(name="m", cpus="auto")], reserve=0, pinned={})["m"]
    cpus = parse_cpulist(share.cpuset)
    assert cpus <= set(cpu.usable)
    assert share.threads <= share.batch <= len(cpus)
    most = math.floor(cpu.quota) if isinstance(cpu.quota, float) else len(cpu.usable)
    if isinstance(cpu.cores, Unknown):
        # Two threads a core is what is likely; a few machines have none or four.
        assert min(most, len(cpu.usable) // 2) <= share.threads <= most
    else:
        kinds = any(core.speed for core in cpu.cores)
        worth = machine.fast_cores if kinds and machine.fast_cores else len(cpu.cores)
        assert share.threads == min(most, worth) or (kinds and machine.fast_cores is None)


def _counts(machine: Machine, facts: Facts) -> list[str]:
    cpu, nodes = facts.cpu, facts.memory.nodes
    cores = cpu.cores if isinstance(cpu.cores, tuple) else None
    found: dict[str, object] = {
        "sockets": cpu.sockets,
        "cores": len(cores) if cores else None,
        "threads_per_core": max(len(core.cpus) for core in cores) if cores else None,
        "logical": len(cpu.usable) if isinstance(cpu.usable, tuple) else cpu.online,
        "numa_nodes": len(nodes) if isinstance(nodes, tuple) else None,
    }
    wrong = [
        f"{field} is {told}, expected {machine.expected[field]}"
        for field, told in found.items()
        if isinstance(told, int) and machine.value(field) not in (None, told)
    ]
    arch = facts.os.arch
    if machine.arch and isinstance(arch, str) and arch != ARCH_WORDS.get(machine.arch, machine.arch):
        wrong.append(f"arch is {arch}, expected {machine.arch}")
    with_cpus = re.search(r"\((\d+) with CPUs\)", machine.expected.get("numa_nodes", ""))
    if with_cpus and isinstance(nodes, tuple) and sum(bool(node.cpus) for node in nodes) != int(with_cpus[1]):
        wrong.append(f"nodes with CPUs: {nodes}, expected {with_cpus[0]}")
    if cores and machine.fast_cores is not None and any(core.speed for core in cores):
        fast = sum(core.speed == max(each.speed for each in cores) for core in cores)
        if fast != machine.fast_cores:
            wrong.append(f"{fast} fast cores, expected {machine.fast_cores}")
    return wrong


def _flags(machine: Machine, facts: Facts) -> list[str]:
    wrong = []
    for field in ("avx2", "avx512f", "amx", "bf16"):
        expected = machine.expected.get(field, "unknown")
        told = able(facts, field)
        if (
            isinstance(told, bool)
            and not expected.startswith("unknown")
            and told == expected.startswith("no")
        ):
            wrong.append(f"{field} is {told}, expected {expected}")
        if isinstance(told, bool) and told and expected.startswith("unknown"):
            wrong.append(f"{field} is known, expected {expected}")
    return wrong


def _memory(machine: Machine, facts: Facts) -> list[str]:
    memory = facts.memory
    wrong = []
    if machine.memory and isinstance(memory.machine, int):
        size, off = machine.memory
        if abs(memory.machine - size) > off:
            wrong.append(f"memory is {memory.machine}, expected {machine.expected['mem']}")
    limit = re.search(r"cgroup limit ([\d.]+)GiB", machine.expected.get("mem", ""))
    if limit and isinstance(memory.total, int) and abs(memory.total / (1 << 30) - float(limit[1])) > 0.1:
        wrong.append(f"usable memory is {memory.total}, expected {limit[0]}")
    return wrong
