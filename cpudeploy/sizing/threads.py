"""How many threads each model runs on the cores it was given. In: grants and the machine. Out: Shares.

One thread a physical core for decoding; prompt batches use SMT siblings too. Under a CPU quota all threads
together stay within it: a thread too many is throttled, and the others wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..types.cpulist import format_cpulist
from ..types.facts import Core
from .machine import Machine, reserved_cores, whole_cpus


@dataclass(frozen=True)
class Grant:
    """The cores of one model, and what decides its threads.

    said: the manifest says how many or which CPUs, so that each counts. shared: others run on them too.
    threads, batch: of the container that keeps running so, 0 for a newcomer. bound: each thread is bound to a
    core for good.
    """

    cores: tuple[Core, ...]
    reason: str
    kept: bool = False
    said: bool = False
    shared: bool = False
    threads: int = 0
    batch: int = 0
    bound: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Share:
    """The cores of one model. `threads` for decoding, `batch` for prompt batches. `reasons`: field → why."""

    cores: tuple[Core, ...]
    threads: int
    batch: int
    kept: bool
    reasons: dict[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def cpuset(self) -> str:
        return cpus_of(self.cores)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The NUMA nodes its cores lie in."""
        return tuple(sorted({core.node for core in self.cores}))


def cpus_of(cores: Sequence[Core]) -> str:
    """Their CPUs as a kernel cpu list."""
    return format_cpulist(cpu for core in cores for cpu in core.cpus)


def shares_of(machine: Machine, grants: Mapping[str, Grant]) -> dict[str, Share]:
    """Threads for every grant. A model that keeps its cores keeps its threads, as far as a quota lets it."""
    sharers = [name for name, grant in grants.items() if grant.shared]
    wanted = {name: _unlimited(machine, grant, len(sharers)) for name, grant in grants.items()}
    limit = machine.limited
    if limit is not None:
        wanted = _within(limit, wanted, grants)
    over = limit is not None and sum(threads for threads, _ in wanted.values()) > whole_cpus(limit)
    return {
        name: _share(machine, name, grant, *wanted[name], sharers=sharers, over=over)
        for name, grant in grants.items()
    }


def _unlimited(machine: Machine, grant: Grant, sharers: int) -> tuple[int, int]:
    """Threads and batch threads as if there was time enough for all CPUs."""
    cpus = sum(len(core.cpus) for core in grant.cores)
    if grant.threads:
        return min(grant.threads, cpus), min(max(grant.batch, grant.threads), cpus)
    # Where the cores are not known, a quota tells better than half of the CPUs how much was meant for us.
    each = grant.said or machine.limited is not None
    threads = len(grant.cores) if each else machine.physical(grant.cores)
    if grant.shared:
        part = max(1, threads // sharers)
        return part, part if grant.bound else max(part, cpus // sharers)
    if not grant.bound:
        return threads, cpus
    # Its server's own processes starve where every CPU has a thread; SMT siblings have none.
    spare = machine.siblings > 1 or any(len(core.cpus) > 1 for core in grant.cores)
    threads -= 0 if spare or machine.limited is not None else reserved_cores(threads)
    return threads, threads


def _within(
    quota: float, wanted: Mapping[str, tuple[int, int]], grants: Mapping[str, Grant]
) -> dict[str, tuple[int, int]]:
    """No more threads than the quota: newcomers share what those that stay leave, at least one each."""
    kept = {name: min(wanted[name][0], whole_cpus(quota)) for name, grant in grants.items() if grant.threads}
    new = {name: threads for name, (threads, _) in wanted.items() if name not in kept}
    left = max(0.0, quota - sum(kept.values()))
    for name, threads in new.items():
        new[name] = min(
            threads, whole_cpus(left * threads / sum(t for n, (t, _) in wanted.items() if n in new))
        )
        # Their own processes have to live on the quota, too.
        new[name] -= reserved_cores(new[name]) if grants[name].bound else 0
    limited = {**kept, **new}
    return {name: (limited[name], limited[name]) for name in wanted}


def _share(
    machine: Machine, name: str, grant: Grant, threads: int, batch: int, *, sharers: Sequence[str], over: bool
) -> Share:
    reasons = {"cpus": grant.reason, "threads": _why(machine, grant, threads, len(sharers))}
    warnings = list(grant.warnings)
    limit = machine.limited
    if limit is not None and threads < machine.physical(grant.cores):
        reasons["cpus"] += f"; limited by a CPU quota of {limit:.3g}"
    if batch > threads:
        reasons["threads_batch"] = "prompt batches use every CPU of the cores, SMT siblings too"
    elif limit is not None:
        reasons["threads_batch"] = "as for decoding: the quota counts SMT siblings as well"
    else:
        reasons["threads_batch"] = "as for decoding"
    if grant.shared and len(sharers) > 1:
        others = ", ".join(other for other in sharers if other != name)
        warnings.append(
            f"shares {machine.counted(len(grant.cores))} (CPUs {cpus_of(grant.cores)}) with {others}: "
            "each is slower while another works"
        )
    if over:
        warnings.append(
            f"all models together have more threads than the CPU quota of {limit:.3g} keeps busy: they are "
            "throttled when they work at once; `--repack` deals them out again"
        )
    if not grant.threads:
        warnings += _unknowns(machine, grant)
    return Share(
        cores=grant.cores,
        threads=threads,
        batch=batch,
        kept=grant.kept,
        reasons=reasons,
        warnings=tuple(warnings),
    )


def _unknowns(machine: Machine, grant: Grant) -> list[str]:
    """What the host does not tell and a newcomer's threads had to do without."""
    told = []
    if machine.siblings_unknown and not grant.said:
        taken = "two of them are taken for one core" if machine.siblings > 1 else "each is taken for a core"
        told.append(
            f"which CPUs share a core is unknown ({machine.siblings_unknown}): {taken}; "
            "`cpus:` with a number or a list says otherwise"
        )
    if machine.quota_unknown:
        told.append(f"whether a CPU quota limits this host is unknown ({machine.quota_unknown})")
    return told


def _why(machine: Machine, grant: Grant, threads: int, sharers: int) -> str:
    """Where the number of decoding threads comes from."""
    if grant.threads == threads:
        return "kept from what runs"
    if machine.limited is not None:
        return f"whole CPUs of its part of the quota of {machine.limited:.4g}"
    if grant.shared and sharers > 1:
        return f"an equal part of the shared {machine.counted(len(grant.cores))}, for {sharers} models"
    if grant.bound and threads < machine.physical(grant.cores):
        left = machine.physical(grant.cores) - threads
        return f"one a physical core, but {left} left to the server's own processes"
    if machine.siblings > 1 and not grant.said:
        return "half of its CPUs: which of them share a core is unknown"
    return "one a CPU that was asked for" if machine.siblings > 1 else "one a physical core"
