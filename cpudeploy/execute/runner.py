"""A plan in, events while it happens, an `Outcome` at the end.

Hosts run side by side, in stages: all are locked before any is touched, and every host provisions and fetches
before any host replaces what serves. Knows no transport and no engine: hosts are `Target`s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from ..errors import Locked, UsageError
from ..types.base import from_json, to_json
from ..types.event import Event, StopAsked
from ..types.outcome import Outcome
from ..types.plan import Plan
from .change import Tell
from .failure import failure_of
from .host_run import HostRun, OpenTarget
from .interrupt import Interrupt
from .locking import lock_all


def execute(
    plan: Plan,
    open_target: OpenTarget,
    tell: Tell,
    *,
    parallel: int = 16,
    retry: bool = False,
    only: Collection[str] | None = None,
) -> Outcome:
    """Carry `plan` out, `parallel` hosts at a time. Never raises for what goes wrong on a host. `only`: on
    these of its hosts; the others are not even looked at.

    `open_target` and `tell` are called from several threads; `tell` by one at a time. That it fails is no
    reason to stop or to undo anything: the first time it does is in the outcome's warnings. `retry`: also
    what this plan failed with before. Raises UsageError for a plan of recorded facts: nobody looked at the
    hosts as they are.
    """
    if plan.recorded:
        raise UsageError(
            f"this plan was made from recorded facts of {plan.recorded}: it can be read, never applied",
            do="plan again without --facts",
        )
    started = time.monotonic()
    plan = from_json(to_json(plan), Plan)  # whoever made it: only what its JSON form says counts
    telling = _Telling(tell)
    interrupt = Interrupt(lambda now: telling(StopAsked(now=now)))
    runs = [
        HostRun(name, plan, open_target, telling, interrupt, retry=retry)
        for name in plan.hosts
        if only is None or name in only
    ]
    with interrupt.listening():
        _together([run.connect for run in runs], parallel)
        _lock(runs, plan.id, parallel)
        _together([run.prepare for run in runs], parallel)
        _together([run.replace for run in runs], parallel)
        hosts = {run.name: run.finish() for run in runs}
    return Outcome(
        deployment=plan.deployment,
        plan=plan.id,
        hosts=hosts,
        warnings=telling.warnings,
        seconds=time.monotonic() - started,
    )


def _lock(runs: Sequence[HostRun], plan: str, parallel: int) -> None:
    """Every host that has something to be done, or none of them."""
    reached = {run.name: run for run in runs if run.target is not None}
    targets = {name: run.target for name, run in reached.items() if run.target is not None}
    failed = lock_all(targets, plan, parallel=parallel)
    others = [(name, error) for name, error in failed.items() if isinstance(error, Locked)]
    for name, run in reached.items():
        if name in failed:
            run.not_locked(failed[name])
        elif others:
            run.not_begun(*others[0])
        else:
            run.locked()


def _together(jobs: Sequence[Callable[[], None]], parallel: int) -> None:
    """Run all jobs, `parallel` at a time, and wait for the last. Jobs don't raise."""
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        wait([pool.submit(job) for job in jobs])


class _Telling:
    """Passes events on, one at a time. Whatever fails there stays there; `warnings` has the first."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lock = threading.RLock()
        self.warnings: tuple[str, ...] = ()

    def __call__(self, event: Event) -> None:
        with self._lock:
            try:
                self._tell(event)
            except Exception as error:
                self.warnings = self.warnings or (f"progress was not shown whole: {failure_of(error).what}",)
