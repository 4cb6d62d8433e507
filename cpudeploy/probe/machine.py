"""Operating system, processors and memory, from records. Pure.

Processors are those this host may use: on-line ∩ affinity ∩ cpuset; a CPU quota is a fact of its own,
never folded into a count. What contradicts itself is unknown, not averaged.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ..types.base import Unknown
from ..types.facts import Core, Cpu, Memory, Node, Os
from .records import Records

_ARCHES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "loongarch64": "loong64",
}
_FLAG_KEYS = {"flags", "features", "isa"}
_MODEL_KEYS = ("model name", "cpu model", "hardware", "cpu", "model", "uarch")
_MOST_THREADS = 8
"""A core has no more threads; where a hypervisor says so, its topology is made up."""
_NO_LIMIT = 1 << 60
"""v1 says about 2**63 for no memory limit."""


def read_os(records: Records) -> Os:
    release: dict[str, str] = {}
    for line in records.lines("os-release"):
        key, equals, value = line.partition("=")
        if equals:
            try:
                release[key.strip()] = " ".join(shlex.split(value))
            except ValueError:
                release[key.strip()] = value.strip()
    kernel = records.text("uname").partition(" ")[2]
    machine = records.text("machine").strip()
    page = records.text("page-size").strip()
    missing = records.why("os-release", "no /etc/os-release")
    return Os(
        id=release.get("ID") or missing,
        version=release.get("VERSION_ID") or missing,
        codename=release.get("VERSION_CODENAME", ""),
        name=release.get("PRETTY_NAME") or release.get("NAME", ""),
        kernel=kernel or records.why("uname", "uname gave nothing"),
        arch=_ARCHES.get(machine, machine) or records.why("machine", "uname gave nothing"),
        page_size=int(page) if page.isdigit() else records.why("page-size", "getconf gave nothing"),
    )


def read_cpu(records: Records) -> Cpu:
    info = _distinct(records.lines("cpuinfo"))
    flag_lines = [value for key in _FLAG_KEYS for value in info.get(key, [])]
    model = next((info[key][0] for key in _MODEL_KEYS if info.get(key)), "")
    online = cpu_list(records.text("online"))
    flags: tuple[str, ...] | Unknown = records.why("cpuinfo", "/proc/cpuinfo lists none")
    if flag_lines:
        # Core types may differ; only what all have can be counted on.
        flags = tuple(sorted(set.intersection(*(set(line.split()) for line in flag_lines))))
    topology = _topology(records)
    usable = _usable(records, online)
    return Cpu(
        model=model or records.why("cpuinfo", "/proc/cpuinfo names none"),
        flags=flags,
        online=len(online) or records.why("online", "no list of on-line processors"),
        sockets=len({socket for _, socket, _ in topology}) or records.why("topology", "no topology"),
        usable=tuple(sorted(usable)) or records.why("online", "no usable processors are listed"),
        cores=_cores(records, usable),
        quota=_quota(records),
    )


def read_memory(records: Records) -> Memory:
    sizes: dict[str, int] = {}
    for line in records.lines("meminfo"):
        key, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            sizes[key] = int(words[0]) * 1024
    missing = records.why("meminfo", "/proc/meminfo does not say")
    machine = sizes.get("MemTotal")
    available = sizes.get("MemAvailable")
    limits = _memory_limits(records)
    limit: int | Unknown | None = min((size for size, _ in limits), default=None)
    if not _limits_known(records):
        limit = records.why("limits", "no cgroup")
    known = [size for size, _ in limits]
    left = [free for _, free in limits]
    return Memory(
        total=missing if machine is None else min(machine, *known) if known else machine,
        available=missing if available is None else max(0, min(available, *left)) if left else available,
        machine=missing if machine is None else machine,
        limit=limit,
        swap=sizes.get("SwapTotal", missing),
        nodes=_nodes(records, machine) or missing,
    )


def cpu_list(text: str) -> frozenset[int]:
    """The kernel's `0-3,8` as numbers; nothing where it can't be read."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            continue
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)


def _distinct(lines: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and value.strip():
            found.setdefault(key.strip().lower(), []).append(value.strip())
    return found


def _usable(records: Records, online: frozenset[int]) -> frozenset[int]:
    cpus = online or frozenset(cpu for cpu, _, _ in _topology(records))
    affinity = cpu_list(records.text("affinity"))
    if affinity:
        cpus &= affinity
    for file, _, value in _limits(records):
        if file in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            allowed = cpu_list(value)
            if allowed:  # empty: as the group above
                cpus &= allowed
    return cpus


def _topology(records: Records) -> list[tuple[int, int, int]]:
    """(processor, socket, core id) of every processor with a topology, in the shell's order."""
    found = []
    for line in records.lines("topology"):
        words = line.split()
        if len(words) == 3 and words[0].isdigit():
            cpu, socket, core = (int(word) if word.lstrip("-").isdigit() else -1 for word in words)
            found.append((cpu, max(socket, 0), core))
    return found


def _cores(records: Records, usable: frozenset[int]) -> tuple[Core, ...] | Unknown:
    topology = _topology(records)
    known = {cpu for cpu, _, _ in topology}
    if not usable:
        return records.why("online", "no usable processors are listed")
    if not usable <= known:
        return Unknown(unknown="the kernel gives no topology for some processors")
    siblings = records.lines("siblings")
    by_siblings = len(siblings) == len(topology)
    groups: dict[object, list[int]] = {}
    sockets: dict[int, int] = {}
    for index, (cpu, socket, core) in enumerate(topology):
        # Siblings are right where core ids repeat (dies, clusters); ids are all that very old kernels have.
        key: object = cpu_list(siblings[index]) or cpu if by_siblings else (socket, core)
        groups.setdefault(key, []).append(cpu)
        sockets[cpu] = socket
    node_of = {cpu: number for number, _, cpus in _node_rows(records) for cpu in cpus}
    cores = []
    for cpus in groups.values():
        if len(cpus) > _MOST_THREADS:
            return Unknown(unknown=f"the kernel shows one core with {len(cpus)} threads")
        mine = tuple(sorted(set(cpus) & usable))
        if mine:
            cores.append(Core(cpus=mine, socket=sockets[mine[0]], node=node_of.get(mine[0], 0)))
    return tuple(sorted(cores, key=lambda core: core.cpus))


def _node_rows(records: Records) -> list[tuple[int, int, frozenset[int]]]:
    """(node, bytes, processors)."""
    lists = records.lines("node-cpus")
    rows = []
    for index, line in enumerate(records.lines("nodes")):
        number, _, size = line.partition(" ")
        cpus = cpu_list(lists[index]) if index < len(lists) else frozenset()
        rows.append((int(number), int(size) * 1024 if size.isdigit() else 0, cpus))
    return sorted(rows)


def _nodes(records: Records, machine: int | None) -> tuple[Node, ...]:
    rows = _node_rows(records)
    if len(rows) == 1 and machine is not None:
        # All memory is there; the node's own count misses what a hypervisor added later.
        return (Node(id=rows[0][0], memory=machine, cpus=tuple(sorted(rows[0][2]))),)
    if rows:
        return tuple(Node(id=number, memory=size, cpus=tuple(sorted(cpus))) for number, size, cpus in rows)
    return () if machine is None else (Node(id=0, memory=machine),)


def _limits_known(records: Records) -> bool:
    record = records.get("limits")
    return record is not None and record.code == 0


def _limits(records: Records) -> list[tuple[str, str, str]]:
    """(file, folder, value) along our cgroup's path."""
    found = []
    for line in records.lines("limits"):
        file, _, rest = line.partition(" ")
        # The folder may hold spaces, the values of these files are one or two words of digits, `max`, lists.
        words = rest.rsplit(" ", 2 if file == "cpu.max" else 1)
        found.append((file, words[0], " ".join(words[1:])))
    return found


def _quota(records: Records) -> float | Unknown | None:
    """The smallest CPU time limit on the path, in CPUs."""
    if not _limits_known(records):
        return records.why("limits", "no cgroup")
    quotas: list[float] = []
    periods: dict[str, int] = {}
    v1: dict[str, int] = {}
    for file, folder, value in _limits(records):
        if file == "cpu.max":
            limit, _, period = value.partition(" ")
            if limit.isdigit() and period.isdigit() and int(period):
                quotas.append(int(limit) / int(period))
        elif file == "cpu.cfs_quota_us" and value.isdigit():
            v1[folder] = int(value)
        elif file == "cpu.cfs_period_us" and value.isdigit():
            periods[folder] = int(value)
    quotas += [quota / periods[folder] for folder, quota in v1.items() if quota and periods.get(folder)]
    return min(quotas, default=None)


def _memory_limits(records: Records) -> list[tuple[int, int]]:
    """(limit, what of it is free or reclaimable) of every limited group on the path."""
    by_folder: dict[str, dict[str, int]] = {}
    for file, folder, value in _limits(records):
        if value.isdigit():
            by_folder.setdefault(folder, {})[file] = int(value)
    found = []
    for files in by_folder.values():
        limit = files.get("memory.max", files.get("memory.limit_in_bytes", _NO_LIMIT))
        if limit >= _NO_LIMIT:
            continue
        used = files.get("memory.current", files.get("memory.usage_in_bytes", 0))
        cache = files.get("total_inactive_file", files.get("inactive_file", 0))
        found.append((limit, limit - max(0, used - cache)))
    return found
