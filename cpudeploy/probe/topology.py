"""Which processors share a core and a socket, from whichever source tells. Pure.

The kernel's own files come first, then /proc/cpuinfo, then lscpu. A source counts only where it covers
every processor we may use; one that says what no hardware does is made up by a hypervisor and tells nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from .cpuinfo import Processor
from .cpulist import cpu_list, whole
from .lscpu import Lscpu
from .records import Records


@dataclass(frozen=True)
class Topology:
    """What one source tells. `cores`: processor → key of its core; `sockets`: processor → package.

    `speeds`: processor → (the kernel's capacity, maximum kHz), 0 where not told.
    """

    source: str
    cores: Mapping[int, Hashable] = field(default_factory=dict)
    sockets: Mapping[int, int] = field(default_factory=dict)
    speeds: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def most_threads(self) -> int:
        """Threads of the core that has most."""
        return max(Counter(self.cores.values()).values(), default=0)


def kernel_topology(records: Records) -> Topology:
    """From /sys/devices/system/cpu. What is off-line has no topology there."""
    rows = []
    for line in records.lines("topology"):
        numbers = [whole(word) for word in line.split()]
        words = [-1 if number is None else number for number in numbers]
        if len(words) >= 3 and words[0] >= 0:
            rows.append((words + [-1] * 7)[:7])
    siblings = records.lines("siblings")
    # Siblings are right where core ids repeat (dies, clusters); ids are all that very old kernels have.
    by_siblings = len(siblings) == len(rows)
    cores: dict[int, Hashable] = {}
    sockets, speeds = {}, {}
    for index, (cpu, socket, core, capacity, khz, book, drawer) in enumerate(rows):
        # Mainframes number sockets anew in each book, and books in each drawer.
        sockets[cpu] = max(socket, 0) + (max(book, 0) << 16) + (max(drawer, 0) << 32)
        cores[cpu] = cpu_list(siblings[index]) or cpu if by_siblings else (sockets[cpu], core)
        speeds[cpu] = (max(capacity, 0), max(khz, 0))
    return Topology("/sys", cores, sockets, speeds)


def cpuinfo_topology(processors: tuple[Processor, ...]) -> Topology:
    """From /proc/cpuinfo, which most architectures print without ids."""
    cores: dict[int, Hashable] = {}
    for each in processors:
        if each.siblings is not None and each.siblings == each.cores:
            cores[each.cpu] = each.cpu  # as many processors as cores: no SMT
        elif each.core is not None:
            cores[each.cpu] = (each.socket, each.core)
    sockets = {each.cpu: each.socket or 0 for each in processors if each.cpu in cores}
    return Topology("/proc/cpuinfo", cores, sockets)


def lscpu_topology(lscpu: Lscpu) -> Topology:
    """From lscpu's tables; from its summary only where a core has one thread. Socket -1: not told."""
    if lscpu.rows:
        return Topology(
            "lscpu",
            {row.cpu: (row.socket, row.core) for row in lscpu.rows},
            {row.cpu: row.socket for row in lscpu.rows},
            {row.cpu: (0, row.mhz * 1000) for row in lscpu.rows},
        )
    if not lscpu.one_thread_a_core:
        return Topology("lscpu")
    socket = 0 if lscpu.sockets in (None, 1) else -1
    return Topology("lscpu", {cpu: cpu for cpu in lscpu.on}, dict.fromkeys(lscpu.on, socket))
