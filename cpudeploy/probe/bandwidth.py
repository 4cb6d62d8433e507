"""How fast a host reads its memory, measured on request: the one probe that puts load on a host.

In: a connection and the host's facts. Out: bytes a second. Every usable core reads memory of its own at the
same time, far more of it than caches hold; docs/recommend.md compares that with a program in C.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from ..errors import HostError
from ..types.base import Unknown
from ..types.facts import Facts

if TYPE_CHECKING:
    from ..transport import Connection

DEADLINE_S = 60


def measure_bandwidth(connection: Connection, facts: Facts) -> int:
    """Bytes a second that all usable cores read together; takes half of the free memory at most. Raises
    HostError saying why it can't be measured, ConnectionLost, OperationFailed at the deadline."""
    available = facts.memory.available
    done = connection.run(
        script(),
        args={
            "cpus": ",".join(map(str, _readers(facts))),
            "spare": "0" if isinstance(available, Unknown) else str(available // 2),
        },
        root=False,
        deadline_s=DEADLINE_S,
    )
    told = done.stdout.strip()
    if done.rc != 0 or not told.isdigit() or int(told) == 0:
        why = done.stderr.strip().splitlines()
        raise HostError(
            f"its memory's bandwidth can't be measured: {why[-1] if why else f'exit {done.rc}'}",
            where=facts.host,
            do="leave --measure out; what fits is told without it",
        )
    return int(told)


def script() -> str:
    """What runs on the host."""
    return resources.files(__package__).joinpath("bandwidth.sh").read_text(encoding="utf-8")


def _readers(facts: Facts) -> tuple[int, ...]:
    """One CPU of each usable core, or all where nobody knows which share one. Raises HostError."""
    if not isinstance(facts.cpu.cores, Unknown):
        return tuple(core.cpus[0] for core in facts.cpu.cores)
    if not isinstance(facts.cpu.usable, Unknown):
        return facts.cpu.usable
    raise HostError(f"its cores are unknown: {facts.cpu.cores.unknown}", where=facts.host)
