"""Who has the CPUs meanwhile: a server's host, the clients of this process, and everything else.

In: a function that tells CPU seconds of the server so far, and its CPUs. Out: CPU seconds a second of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Shares:
    """CPU seconds a second. others: on the server's CPUs, what neither the server nor this process had, time
    that another guest of the machine's owner took included."""

    server: float
    client: float
    others: float


class Watch:
    """From when it is made."""

    def __init__(self, server: Callable[[], float], cpus: Set[int]) -> None:
        self._server, self._cpus = server, cpus
        self._began = self._now()

    def shares(self) -> Shares:
        """Until now."""
        wall, server, client, busy = (now - then for now, then in zip(self._now(), self._began, strict=True))
        shared = client if self._cpus & os.sched_getaffinity(0) else 0
        return Shares(server / wall, client / wall, max(0, busy - server - shared) / wall)

    def _now(self) -> tuple[float, float, float, float]:
        return time.monotonic(), self._server(), time.process_time(), busy_seconds(self._cpus)


def busy_seconds(cpus: Set[int]) -> float:
    """What these CPUs have worked since the machine's start, or were kept from working."""
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _, _, irq, soft, steal = map(int, ticks[:8])
            total += user + nice + system + irq + soft + steal
    return total / TICKS


def keep_off(cpus: Set[int]) -> None:
    """Run this thread, and those it starts, on other CPUs than these, where the machine has others."""
    everywhere = set(range(os.cpu_count() or 1))
    os.sched_setaffinity(0, everywhere - set(cpus) or everywhere)
