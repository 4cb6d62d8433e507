"""Memory that models can use, from records. Pure.

`machine` is what the kernel has; `total` what can be planned with: huge pages set aside, and nodes that are
not for us, are gone from it, and no control group allows more.
"""

from __future__ import annotations

from ..types.base import Unknown
from ..types.cpulist import format_cpulist
from ..types.facts import Memory, Node
from .cpulist import cpu_list, whole
from .limits import Limits
from .lscpu import parse_lscpu
from .records import Records

_GIB = 1 << 30
_MOST = 0.9
"""Nodes count less than the machine: what the kernel keeps for itself is told apart."""


def node_rows(records: Records) -> list[tuple[int, int, int, frozenset[int]]]:
    """(NUMA node, its bytes without huge pages set aside, free bytes, processors), by number."""
    lists = records.lines("node-cpus")
    page = _sizes(records).get("Hugepagesize", 0)
    rows = []
    for index, line in enumerate(records.lines("nodes")):
        number, size, free, huge = (whole(word) or 0 for word in [*line.split(), "", "", "", ""][:4])
        cpus = cpu_list(lists[index]) if index < len(lists) else frozenset()
        rows.append((number, max(0, size * 1024 - huge * page), free * 1024, cpus))
    return sorted(rows)


def read_memory(records: Records, limits: Limits, notes: list[str]) -> Memory:
    """Appends to `notes` what of the machine's memory is left out, and why."""
    sizes = _sizes(records)
    missing = records.why("meminfo", "/proc/meminfo does not say")
    machine, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    huge = _huge_pages(sizes)
    if huge:
        notes.append(f"{huge / _GIB:.1f} GiB are set aside as huge pages: models can't use them")
    rows = node_rows(records)
    out = _left_out(records, limits, rows, notes)
    lost = sum(size for number, size, _, _ in rows if number in out)
    lost_free = sum(free for number, _, free, _ in rows if number in out)
    known = [size for size, _ in limits.memory]
    left = [free for _, free in limits.memory]
    limit: int | Unknown | None = limits.unknown or min(known, default=None)
    total = missing if machine is None else max(0, min(machine - huge - lost, *known, machine))
    most = [] if isinstance(total, Unknown) else [total]
    return Memory(
        total=total,
        available=missing
        if available is None
        else max(0, min(available - lost_free, *left, *most, available)),
        machine=missing if machine is None else machine,
        limit=limit,
        swap=sizes.get("SwapTotal", missing),
        nodes=_nodes(records, rows, machine, huge, notes),
        huge_pages=huge,
    )


def _sizes(records: Records) -> dict[str, int]:
    """/proc/meminfo in bytes; its counts of huge pages as they are."""
    sizes: dict[str, int] = {}
    for line in records.lines("meminfo"):
        key, _, value = line.partition(":")
        words = value.split()
        number = whole(words[0]) if words else None
        if number is not None:
            sizes[key] = number * (1024 if words[1:] == ["kB"] else 1)
    return sizes


def _huge_pages(sizes: dict[str, int]) -> int:
    """Bytes reserved in huge pages of all sizes; kernels before 4.16 count only the default size."""
    return sizes.get("Hugetlb", sizes.get("HugePages_Total", 0) * sizes.get("Hugepagesize", 0))


def _left_out(
    records: Records,
    limits: Limits,
    rows: list[tuple[int, int, int, frozenset[int]]],
    notes: list[str],
) -> frozenset[int]:
    """Nodes whose memory is not planned with: those we may not use, and those without processors.

    The latter are graphics memory, HBM, CXL: slower, small, or somebody else's. Only where a node with
    processors has no memory of its own are they what the machine works with.
    """
    every = frozenset(number for number, _, _, _ in rows)
    allowed = cpu_list(records.text("memory-nodes")) or every
    forbidden = every - limits.memory_nodes(allowed & every or every)
    if forbidden:
        notes.append(f"memory of NUMA nodes {format_cpulist(forbidden)} may not be used (cpuset): left out")
    bare = frozenset(number for number, size, _, cpus in rows if size and not cpus) - forbidden
    homes = [size for _, size, _, cpus in rows if cpus]
    if not bare or not homes:
        return forbidden
    amount = sum(size for number, size, _, _ in rows if number in bare) / _GIB
    which = (
        f"NUMA node {format_cpulist(bare)} has"
        if len(bare) == 1
        else f"NUMA nodes {format_cpulist(bare)} have"
    )
    what = f"{which} {amount:.1f} GiB of memory and no CPUs"
    if not all(homes):
        notes.append(f"{what}: counted, because CPUs here have no memory of their own")
        return forbidden
    notes.append(f"{what}: left out of what is planned with")
    return forbidden | bare


def _nodes(
    records: Records,
    rows: list[tuple[int, int, int, frozenset[int]]],
    machine: int | None,
    huge: int,
    notes: list[str],
) -> tuple[Node, ...] | Unknown:
    if not rows:
        listed = parse_lscpu(records.text("lscpu")).nodes
        if len(listed) > 1:
            return Unknown(unknown=f"lscpu lists {len(listed)} NUMA nodes, nothing tells their memory")
        if machine is None:
            return records.why("meminfo", "/proc/meminfo does not say")
        number, cpus = next(iter(listed.items()), (0, frozenset[int]()))
        return (Node(id=number, memory=machine - huge, cpus=tuple(sorted(cpus))),)
    listed_bytes = sum(size for _, size, _, _ in rows) + huge
    if machine is not None and len(rows) == 1 and cpu_list(records.text("online")) <= rows[0][3]:
        # All memory is there; the node's own count misses what a hypervisor added later.
        rows = [(rows[0][0], machine - huge, rows[0][2], rows[0][3])]
    elif machine is not None and listed_bytes < machine * _MOST:
        notes.append(
            f"the NUMA nodes that are listed hold {listed_bytes / _GIB:.1f} GiB of the machine's "
            f"{machine / _GIB:.1f}: the latter is believed"
        )
    return tuple(Node(id=number, memory=size, cpus=tuple(sorted(cpus))) for number, size, _, cpus in rows)
