"""Processors we may use, from all sources that tell of them. Pure.

Those are on-line ∩ affinity ∩ cpuset; a CPU quota is a fact of its own, never folded into a count. Where
sources contradict each other the one nearer to the scheduler is believed, with a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..types.base import Unknown
from ..types.cpulist import format_cpulist
from ..types.facts import Core, Cpu
from .cpuinfo import read_flags, read_models, read_numbers, read_processors
from .cpulist import cpu_list
from .limits import Limits
from .lscpu import Lscpu, parse_lscpu
from .memory import node_rows
from .records import Records
from .speed import core_speeds
from .topology import Topology, cpuinfo_topology, kernel_topology, lscpu_topology

_MOST_THREADS = {"amd64": 2, "386": 2, "arm64": 4, "s390x": 2, "riscv64": 4, "loong64": 2}
"""Threads a core of that architecture can have; 8 elsewhere (POWER)."""
_MANY_SOCKETS = 8
"""Machines with more packages are rare, and packages of one core each are made up."""


def read_cpu(records: Records, arch: str | Unknown, limits: Limits, notes: list[str]) -> Cpu:
    """What the host's processors are. Appends to `notes` what sources disagreed about."""
    sources = _Sources(records, limits)
    usable = sources.usable
    cores = _cores(sources, arch if isinstance(arch, str) else "", notes)
    notes.extend(sources.notes())
    quota = limits.quota
    return Cpu(
        model=" + ".join(sources.models)
        or records.why("cpuinfo", "neither /proc/cpuinfo nor lscpu names it"),
        flags=sources.flags or records.why("cpuinfo", "/proc/cpuinfo lists none"),
        online=sources.online_count or Unknown(unknown="nothing lists the on-line processors"),
        sockets=sources.sockets or Unknown(unknown="nothing tells the sockets"),
        usable=tuple(sorted(usable)) or Unknown(unknown=sources.why_none_usable),
        cores=cores,
        quota=limits.unknown or (None if quota is None else quota.cpus),
        throttled=None if quota is None else quota.throttled,
    )


@dataclass(frozen=True)
class _Sources:
    """Every source read once, and what is believed of each question."""

    records: Records
    limits: Limits

    @cached_property
    def lscpu(self) -> Lscpu:
        return parse_lscpu(self.records.text("lscpu") + "\n" + self.records.text("lscpu-rows"))

    @cached_property
    def topologies(self) -> tuple[Topology, ...]:
        return (
            kernel_topology(self.records),
            cpuinfo_topology(read_processors(self.records.lines("cpuinfo-all"))),
            lscpu_topology(self.lscpu),
        )

    @cached_property
    def listed(self) -> frozenset[int]:
        """What /proc/cpuinfo lists; nothing where it says itself that there are more."""
        lines = self.records.lines("cpuinfo-all") or self.records.lines("cpuinfo")
        numbers = read_numbers(lines)
        sizes = [each.siblings or 0 for each in read_processors(lines)]
        return numbers if len(numbers) >= max(sizes, default=0) else frozenset()

    @cached_property
    def affinity(self) -> frozenset[int]:
        return cpu_list(self.records.text("affinity"))

    @cached_property
    def online(self) -> frozenset[int]:
        told = cpu_list(self.records.text("online"))
        here = frozenset(self.topologies[0].cores)
        if told:
            # lxcfs numbers anew what it shows in that file; a processor with a topology runs.
            return told | (self.affinity & here)
        return here or self.listed or self.lscpu.on

    @property
    def online_count(self) -> int | None:
        return len(self.online or self.affinity) or self.lscpu.online_count

    @cached_property
    def usable(self) -> frozenset[int]:
        cpus = self.online or self.affinity
        return self.limits.cpus(cpus & self.affinity if self.affinity else cpus)

    @property
    def why_none_usable(self) -> str:
        if not self.online:
            return "nothing lists the processors"
        return (
            f"the affinity {format_cpulist(self.affinity)}, the cpuset of our control group and the on-line "
            f"processors {format_cpulist(self.online)} have none in common"
        )

    @cached_property
    def topology(self) -> Topology | None:
        """The first source that covers all we may use."""
        return next((t for t in self.topologies if self.usable and self.usable <= t.cores.keys()), None)

    @property
    def sockets(self) -> int | None:
        for topology in self.topologies[:2]:
            sockets = {socket for cpu, socket in topology.sockets.items() if cpu in self.online}
            if sockets:
                return len(sockets)
        return self.lscpu.sockets

    @property
    def models(self) -> tuple[str, ...]:
        named = read_models(self.records.lines("cpuinfo"))
        return named or self.lscpu.models

    @property
    def flags(self) -> tuple[str, ...] | None:
        """Kinds of cores may differ; only what all have can be counted on."""
        told = read_flags(self.records.lines("cpuinfo"))
        if told is not None:
            return told
        sets = [set(flags) for flags in self.lscpu.flags]
        return tuple(sorted(set.intersection(*sets))) if sets else None

    @cached_property
    def node_of(self) -> dict[int, int]:
        rows = {number: cpus for number, _, _, cpus in node_rows(self.records)} or self.lscpu.nodes
        of = {cpu: number for number, cpus in rows.items() for cpu in cpus}
        if not of:
            of = {row.cpu: row.node for row in self.lscpu.rows if row.node >= 0}
        return of or dict.fromkeys(self.usable, 0)

    def notes(self) -> list[str]:
        found = []
        told = cpu_list(self.records.text("online"))
        hidden = self.usable - told if told else frozenset()
        if hidden:
            found.append(
                f"/sys lists CPUs {format_cpulist(told)} as on-line, but CPUs {format_cpulist(hidden)} may "
                "be used and have a topology: these are believed"
            )
        numbers = read_numbers(self.records.lines("cpuinfo"))
        if numbers and self.online and len(numbers) != len(self.online):
            found.append(
                f"/proc/cpuinfo lists {len(numbers)} CPUs, {len(self.online)} are on-line and "
                f"{len(self.usable)} may be used: the affinity is believed"
            )
        isolated = cpu_list(self.records.text("isolated")) - self.usable
        if isolated:
            found.append(
                f"CPUs {format_cpulist(isolated)} are isolated by the kernel's command line: not used"
            )
        homeless = self.usable - self.node_of.keys()
        if homeless:
            found.append(f"no NUMA node lists CPUs {format_cpulist(homeless)}: their cores are of node -1")
        if self.topology is not None and self.topology.source != "/sys":
            found.append(f"/sys tells no topology: {self.topology.source} is believed")
            if self.topology.source == "lscpu" and len(self.lscpu.kinds) > 1 and not self.lscpu.rows:
                found.append(
                    f"CPUs are of {len(self.lscpu.kinds)} kinds, nothing tells which is which: "
                    "all count as alike"
                )
        sockets = self.sockets or 0
        if sockets > _MANY_SOCKETS and self.online_count and sockets * 8 >= self.online_count:
            found.append(
                f"{sockets} sockets for {self.online_count} CPUs are a hypervisor's doing: nothing is placed "
                "by socket"
            )
        quota = self.limits.quota
        if quota is not None and "/user.slice" in quota.folder:
            found.append(
                f"the quota of {quota.cpus:g} CPUs is that of the login ({quota.folder}): containers may not "
                "be bound by it, it is kept to all the same"
            )
        return found


def _cores(sources: _Sources, arch: str, notes: list[str]) -> tuple[Core, ...] | Unknown:
    usable = sources.usable
    if not usable:
        return Unknown(unknown=sources.why_none_usable)
    topology = sources.topology
    if topology is None:
        return Unknown(unknown=_why_no_cores(sources))
    most = _MOST_THREADS.get(arch, 8)
    if any("Phi" in model for model in sources.models):
        most = 4
    if topology.most_threads > most:
        notes.append(
            f"one core with {topology.most_threads} threads is a hypervisor's doing: which CPUs share a core "
            "is taken as unknown"
        )
        return Unknown(unknown=f"{topology.source} shows one core with {topology.most_threads} threads")
    groups: dict[object, set[int]] = {}
    for cpu, key in topology.cores.items():
        groups.setdefault(key, set()).add(cpu)
    whole = [frozenset(cpus) for cpus in groups.values() if cpus & usable]
    speeds = core_speeds(topology, whole, sources.records)
    cores = []
    for cpus, speed in zip(whole, speeds, strict=True):
        mine = tuple(sorted(cpus & usable))
        node = sources.node_of.get(mine[0], -1)
        cores.append(Core(cpus=mine, socket=topology.sockets.get(mine[0], -1), node=node, speed=speed))
    return tuple(sorted(cores, key=lambda core: core.cpus))


def _why_no_cores(sources: _Sources) -> str:
    kernel = sources.topologies[0]
    if kernel.cores:
        missing = format_cpulist(sources.usable - kernel.cores.keys())
        return f"the kernel gives no topology for CPUs {missing}"
    kinds = sources.lscpu.kinds
    if kinds and any(kind.threads for kind in kinds):
        return "lscpu counts cores, but nothing tells which CPUs share one"
    return "neither /sys nor /proc/cpuinfo nor lscpu tells which CPUs share a core"
