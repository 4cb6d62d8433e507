"""Limits of our control group, of the place where the engine starts containers, and of all above. Pure.

Version 1, version 2 and both beside each other; inside a container's own namespace the path ends where the
namespace does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..types.base import Unknown
from .cpulist import cpu_list, whole
from .records import Records

_CPUSETS = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
_MEMSETS = ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems")


@dataclass(frozen=True)
class Quota:
    """A limit of CPU time, in CPUs, of a group. `throttled`: share of periods it stopped somebody in."""

    cpus: float
    folder: str
    throttled: float | None


class Limits:
    """(file, folder, value) of every group on the paths."""

    def __init__(self, records: Records) -> None:
        record = records.get("limits")
        self.unknown: Unknown | None = None
        if record is None or record.code != 0:
            self.unknown = records.why("limits", "no control groups")
        self._values: list[tuple[str, str, str]] = []
        for line in records.lines("limits"):
            file, _, rest = line.partition(" ")
            # The folder may hold spaces; values are one or two words of digits, `max`, lists.
            words = rest.rsplit(" ", 2 if file == "cpu.max" else 1)
            self._values.append((file, words[0], " ".join(words[1:])))

    @property
    def quota(self) -> Quota | None:
        """The smallest limit of CPU time."""
        found: list[tuple[float, str]] = []
        by_folder = self._by_folder()
        for file, folder, value in self._values:
            if file == "cpu.max":
                limit, period = (whole(word) for word in [*value.split(), "", ""][:2])
                if limit and period:
                    found.append((limit / period, folder))
        for folder, files in by_folder.items():
            quota, period_us = files.get("cpu.cfs_quota_us", 0), files.get("cpu.cfs_period_us", 0)
            if quota and period_us:
                found.append((quota / period_us, folder))
        if not found:
            return None
        smallest, folder = min(found)
        files = by_folder.get(folder, {})
        periods = files.get("nr_periods", 0)
        return Quota(smallest, folder, files.get("nr_throttled", 0) / periods if periods else None)

    def cpus(self, allowed: frozenset[int]) -> frozenset[int]:
        """Those of `allowed` that all groups allow."""
        return self._narrowed(allowed, _CPUSETS)

    def memory_nodes(self, allowed: frozenset[int]) -> frozenset[int]:
        """NUMA nodes of `allowed` that all groups allow memory of."""
        return self._narrowed(allowed, _MEMSETS)

    @property
    def memory(self) -> list[tuple[int, int]]:
        """(limit, what of it is free or reclaimable) in bytes, of every group that has a limit."""
        found = []
        for files in self._by_folder().values():
            limit = files.get("memory.max", files.get("memory.limit_in_bytes"))
            if limit is None:  # `max`, or what v1 writes for it: a number no machine has bytes of
                continue
            used = files.get("memory.current", files.get("memory.usage_in_bytes", 0))
            cache = files.get("total_inactive_file", files.get("inactive_file", 0))
            found.append((limit, limit - max(0, used - cache)))
        return found

    def _narrowed(self, allowed: frozenset[int], files: Sequence[str]) -> frozenset[int]:
        """`files`: what says it, the best first. What is effective counts: where a kernel can't give any of
        what was asked for, it gives all that the group above has."""
        told: dict[str, dict[str, frozenset[int]]] = {}
        for file, folder, value in self._values:
            if file in files and cpu_list(value):  # empty: as the group above
                told.setdefault(folder, {})[file] = cpu_list(value)
        for sets in told.values():
            allowed &= next(sets[file] for file in files if file in sets)
        return allowed

    def _by_folder(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for file, folder, value in self._values:
            number = whole(value)
            if number is not None:
                found.setdefault(folder, {})[file] = number
        return found


def throttled_containers(records: Records) -> dict[str, float]:
    """Container id → share of its CPU periods in which its quota stopped it; only of those with a quota."""
    found = {}
    for line in records.lines("throttled"):
        container, periods, stopped = [*line.split(), "", "", ""][:3]
        if whole(periods):
            found[container] = (whole(stopped) or 0) / int(periods)
    return found
