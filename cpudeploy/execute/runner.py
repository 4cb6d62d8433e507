"""A plan in, events while it happens, an `Outcome` at the end.

Hosts run side by side. Every host provisions and fetches first; only when all are through does any
host replace what serves. Knows no transport and no engine: hosts are `Target`s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from ..errors import ConnectError, Locked, StalePlan, UsageError
from ..plan.fingerprint import matches
from ..types.base import from_json, to_json
from ..types.event import Event, HostFinished, HostStarted, Note
from ..types.outcome import ChangeOutcome, HostOutcome, HostStatus, Outcome
from ..types.plan import Change, HostPlan, Plan
from .change import Target, Tell, carry_out, check_fresh, document, finished
from .failure import failure_of
from .interrupt import Interrupt, Interrupted

OpenTarget = Callable[[HostPlan], Target]


def execute(
    plan: Plan,
    open_target: OpenTarget,
    tell: Tell,
    *,
    parallel: int = 16,
    only: Collection[str] | None = None,
) -> Outcome:
    """Carry `plan` out, `parallel` hosts at a time. Never raises for what goes wrong on a host. `only`: on
    these of its hosts; the others are not even looked at.

    `open_target` and `tell` are called from several threads; `tell` by one at a time. That it fails is no
    reason to stop or to undo anything: the first time it does is in the outcome's warnings. Raises UsageError
    for a plan of recorded facts: nobody looked at the hosts as they are.
    """
    if plan.recorded:
        raise UsageError(
            f"this plan was made from recorded facts of {plan.recorded}: it can be read, never applied",
            do="plan again without --facts",
        )
    started = time.monotonic()
    plan = from_json(to_json(plan), Plan)  # whoever made it: only what its JSON form says counts
    interrupt = Interrupt()
    telling = _Telling(tell)
    runs = [
        _HostRun(name, host, open_target, telling, interrupt, removes_all=plan.destroy)
        for name, host in plan.hosts.items()
        if only is None or name in only
    ]
    with interrupt.listening():
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


class _HostRun:
    """One host's way through the plan. `removes_all`: its changes are one removal, each after the other."""

    def __init__(
        self,
        name: str,
        plan: HostPlan,
        open_target: OpenTarget,
        tell: Tell,
        interrupt: Interrupt,
        *,
        removes_all: bool,
    ) -> None:
        self.name = name
        self._plan = plan
        self._open_target = open_target
        self._tell = tell
        self._interrupt = interrupt
        self._removes_all = removes_all
        self._target: Target | None = None
        self._outcomes: dict[str, ChangeOutcome] = {}
        self._stopped: HostStatus | None = None
        self._error = ""
        self._since = time.monotonic()

    def prepare(self) -> None:
        """Connect, check that the plan is fresh, then provision and fetch."""
        self._since = time.monotonic()
        self._tell(HostStarted(host=self.name))
        if self._plan.unreachable:
            self._stop("unreachable", self._plan.unreachable)
        elif self._plan.unknown:
            self._stop("failed", f"not planned: {self._plan.unknown}")
        elif self._plan.changes:
            self._guarded(self._prepare)

    def replace(self) -> None:
        """Replace model by model; one that fails does not keep the others from being replaced.

        Where everything is removed it does: what is removed last is what the rest is found by.
        """
        if self._stopped is None and self._target is not None:
            self._guarded(self._replace)

    def finish(self) -> HostOutcome:
        """Close the host and sum up."""
        if self._target is not None:
            self._target.close()
        for change in self._plan.changes:
            if change.id not in self._outcomes:
                self._keep(finished(self.name, change, "skipped", time.monotonic(), self._tell))
        status = self._status()
        seconds = time.monotonic() - self._since
        self._tell(HostFinished(host=self.name, status=status, seconds=seconds))
        return HostOutcome(
            host=self.name,
            status=status,
            changes=tuple(self._outcomes[change.id] for change in self._plan.changes),
            error=self._error,
            seconds=seconds,
        )

    def _prepare(self) -> None:
        self._target = target = self._open_target(self._plan)
        self._interrupt.on_now(target.close)
        facts = document(target.facts())
        # All of it before anything is touched: a plan that is stale changes nothing.
        for change in self._plan.changes:
            check_fresh(change, facts, quantities=False)
        worked = False
        for phase in ("provision", "fetch"):
            changes = self._of(phase)
            if changes and worked:
                facts = document(target.facts())
            for change in changes:
                outcome = self._carry_out(change, facts, target)
                worked = worked or outcome.status == "done"
                if outcome.status in ("failed", "reverted"):
                    self._stop(outcome.status, "")
                    return

    def _replace(self) -> None:
        target = self._target
        assert target is not None
        for change in self._of("replace"):
            outcome = self._carry_out(change, document(target.facts()), target)
            if self._removes_all and outcome.status in ("failed", "reverted"):
                self._stop(outcome.status, "")
                break
        if any(outcome.status == "done" for outcome in self._outcomes.values()):
            self._look_again(document(target.facts()))

    def _carry_out(self, change: Change, facts: Any, target: Target) -> ChangeOutcome:
        if self._interrupt.asked:
            raise Interrupted("interrupted")
        carried = carry_out(change, facts, target, self.name, self._tell, self._interrupt)
        self._keep(carried.outcome)
        if carried.fatal is not None:
            raise carried.fatal
        return carried.outcome

    def _look_again(self, facts: Any) -> None:
        """Say where the host is not as the plan meant to leave it, although all operations worked."""
        for change in self._plan.changes:
            outcome = self._outcomes.get(change.id)
            if outcome is not None and outcome.status == "done":
                for mismatch in matches(change.after, facts):
                    text = f"done, but the host is not as planned: {mismatch}"
                    self._tell(Note(host=self.name, change=change.id, text=text, level="warning"))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run `work`; whatever ends it becomes the host's status."""
        try:
            work()
        except Exception as error:
            failure = failure_of(error)
            text = f"{failure.what} ({failure.do})" if failure.do else failure.what
            self._stop(_status_of(error), text)
            if self._interrupt.asked and self._stopped == "unreachable":
                self._stop("interrupted", "")  # we closed that connection ourselves

    def _stop(self, status: HostStatus, error: str) -> None:
        self._stopped = status
        self._error = error

    def _status(self) -> HostStatus:
        statuses = [outcome.status for outcome in self._outcomes.values()]
        if self._stopped is not None:
            return self._stopped
        if self._interrupt.asked and "skipped" in statuses:
            return "interrupted"
        if "failed" in statuses:
            return "failed"
        if "reverted" in statuses:
            return "reverted"
        return "done" if "done" in statuses else "unchanged"

    def _of(self, phase: str) -> list[Change]:
        return [change for change in self._plan.changes if change.phase == phase]

    def _keep(self, outcome: ChangeOutcome) -> None:
        self._outcomes[outcome.change] = outcome


def _status_of(error: Exception) -> HostStatus:
    if isinstance(error, Interrupted):
        return "interrupted"
    if isinstance(error, StalePlan):
        return "stale"
    if isinstance(error, Locked):
        return "locked"
    if isinstance(error, ConnectError):
        return "unreachable"
    return "failed"


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
