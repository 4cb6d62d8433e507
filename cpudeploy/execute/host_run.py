"""One host's way through a plan: connected, locked, settled, prepared, replaced, summed up.

Knows no transport and no engine. Whatever goes wrong on the host ends as its status, never as an exception.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..errors import ConnectError, CpudeployError, Locked, StalePlan
from ..plan.fingerprint import matches
from ..plan.order import last_removals
from ..types.event import HostFinished, HostStarted, Note
from ..types.facts import Facts
from ..types.outcome import ChangeOutcome, HostOutcome, HostStatus
from ..types.plan import Change, HostPlan, Plan
from ..types.safety import InFlight
from .change import (
    Target,
    Tell,
    already,
    carry_out,
    check_fresh,
    document,
    finish,
    finished,
    has_proven_itself,
    note_proven,
    undo,
    was_committed,
)
from .failure import failure_of
from .interrupt import Interrupt, Interrupted

OpenTarget = Callable[[HostPlan], Target]


class HostRun:
    """Its methods are called in their order, each when all hosts are through with the one before."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        open_target: OpenTarget,
        tell: Tell,
        interrupt: Interrupt,
        *,
        retry: bool,
    ) -> None:
        self.name = name
        self.target: Target | None = None
        """Where the host is connected and has something to be done."""
        self._plan = plan
        self._host = plan.hosts[name]
        self._id = plan.id
        self._open_target = open_target
        self._tell = tell
        self._interrupt = interrupt
        self._retry = retry
        self._ours = False
        self._used = False
        self._outcomes: dict[str, ChangeOutcome] = {}
        self._stopped: HostStatus | None = None
        self._error = ""
        self._since = time.monotonic()

    def connect(self) -> None:
        """Open the host, if it has changes."""
        self._since = time.monotonic()
        self._tell(HostStarted(host=self.name))
        if self._host.unreachable:
            self._stop("unreachable", self._host.unreachable)
        elif self._host.unknown:
            self._stop("failed", f"not planned: {self._host.unknown}")
        elif self._host.changes:
            self._guarded(self._connect)

    def locked(self) -> None:
        """The lease is ours."""
        self._ours = True

    def not_locked(self, error: Exception) -> None:
        """Why there is no lease here."""
        self._end(error)

    def not_begun(self, because: str, error: Locked) -> None:
        """Another host, `because`, is not to be had: nothing is done here either, and no lease is kept."""
        self._stop("locked", f"not begun: {because} is locked: {error.what}")

    def prepare(self) -> None:
        """See that the plan is fresh, then provision and fetch."""
        if self._stopped is None and self.target is not None:
            self._guarded(self._prepare)

    def replace(self) -> None:
        """Replace model by model; one that fails does not keep the others from being replaced. Where one
        that is new does not come to serve, what was to be removed last stays: it may be its old name.

        Where everything is removed it does: what is removed last is what the rest is found by.
        """
        if self._stopped is None and self.target is not None:
            self._guarded(self._replace)

    def finish(self) -> HostOutcome:
        """Note the end on the host, leave it and sum up."""
        for change in self._host.changes:
            if change.id not in self._outcomes:
                self._keep(finished(self.name, change, "skipped", time.monotonic(), self._tell))
        status = self._status()
        if self.target is not None:
            if self._ours:
                self._note_end(self.target, status)
            self.target.close()
        seconds = time.monotonic() - self._since
        self._tell(HostFinished(host=self.name, status=status, seconds=seconds))
        return HostOutcome(
            host=self.name,
            status=status,
            changes=tuple(self._outcomes[change.id] for change in self._host.changes),
            error=self._error,
            seconds=seconds,
        )

    def _connect(self) -> None:
        target = self._open_target(self._host)
        self._interrupt.on_now(target.close)
        self.target = target

    def _prepare(self) -> None:
        target = self._here()
        found = self._settled(target, target.facts())
        if self._plan.saved and self._id in found.used_plans.get(self._plan.deployment, ()):
            self._used = True
            self._stop("used", "this plan was carried out here already")
            return
        facts = document(found)
        # All of it before anything is touched: a plan that is stale changes nothing.
        for change in self._host.changes:
            if not self._is_held(change, found):
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

    def _settled(self, target: Target, found: Facts) -> Facts:
        """The host without what an apply that ended in the middle left: put back what has a way back, then,
        where it was this very plan, undone as the plan says, so that it can be done again, or finished."""
        if found.in_flight is None and not found.guards:
            return found
        target.settle()
        left = found.in_flight
        if isinstance(left, InFlight):
            text = f"an apply by {left.holder} ended in the middle of {left.subject}; that is put right first"
            self._tell(Note(host=self.name, change="", text=text))
            change = next((each for each in self._host.changes if each.id == left.change), None)
            if change is not None and left.plan == self._id:
                self._take_up(change, target, found)
        return target.facts()

    def _take_up(self, change: Change, target: Target, found: Facts) -> None:
        """The change of this very plan that its last apply died in, from `found`: finished where the new one
        had proven itself, else undone, unless all of it was done. What can't be undone stays noted, for next
        time."""
        target.begin(change)
        now = document(target.facts())
        if already(change, now):
            note_proven(change, target, self.name, self._tell)
            target.end(change, "done")
        elif was_committed(change, found) or has_proven_itself(change, now):
            finish(change, target, self.name, self._tell)
            target.end(change, "done")
        elif undo(change, target, self.name, self._tell, prove=False):
            target.end(change, "reverted")

    def _replace(self) -> None:
        target = self._here()
        everything = self._plan.destroy or self._host.host.retired
        last = last_removals(self._of("replace"))
        for change in self._of("replace"):
            found = target.facts()
            if self._is_held(change, found):
                self._keep(finished(self.name, change, "held", time.monotonic(), self._tell))
                continue
            if change in last and self._lacking():
                text = (
                    f"{change.subject} stays: {self._lacking()} does not serve, and may be to take its place"
                )
                self._tell(Note(host=self.name, change=change.id, text=text, level="warning"))
                continue
            outcome = self._carry_out(change, document(found), target)
            if everything and outcome.status in ("failed", "reverted"):
                self._stop(outcome.status, "")
                break
        if any(outcome.status == "done" for outcome in self._outcomes.values()):
            self._look_again(document(target.facts()))

    def _lacking(self) -> str:
        """Models that are new here and did not come to serve; empty when all did."""
        new = [change for change in self._of("replace") if change.action == "create"]
        ends = {change.subject: self._outcomes.get(change.id) for change in new}
        return ", ".join(
            model for model, end in ends.items() if end and end.status in ("failed", "reverted", "held")
        )

    def _carry_out(self, change: Change, facts: Any, target: Target) -> ChangeOutcome:
        if self._interrupt.asked:
            raise Interrupted("interrupted")
        carried = carry_out(change, facts, target, self.name, self._tell, self._interrupt)
        self._keep(carried.outcome)
        if carried.fatal is not None:
            raise carried.fatal
        return carried.outcome

    def _is_held(self, change: Change, found: Facts) -> bool:
        """Whether this plan failed here before, with this very change."""
        if change.hold is None or self._retry:
            return False
        held = found.held.get(self._plan.deployment, {}).get(change.hold.container)
        return held is not None and (held.release, held.wanted) == (change.hold.release, change.hold.wanted)

    def _look_again(self, facts: Any) -> None:
        """Say where the host is not as the plan meant to leave it, although all operations worked."""
        for change in self._host.changes:
            outcome = self._outcomes.get(change.id)
            if outcome is not None and outcome.status == "done":
                for mismatch in matches(change.after, facts):
                    text = f"done, but the host is not as planned: {mismatch.still}"
                    self._tell(Note(host=self.name, change=change.id, text=text, level="warning"))

    def _note_end(self, target: Target, status: HostStatus) -> None:
        used = bool(self._plan.saved) and status in ("done", "unchanged")
        try:
            target.finish(status, used=used)
        except CpudeployError as error:
            text = f"the end could not be noted on the host: {error.what}"
            self._tell(Note(host=self.name, change="", text=text, level="warning"))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run `work`; whatever ends it becomes the host's status."""
        try:
            work()
        except Exception as error:
            if isinstance(error, ConnectError | Locked):
                self._ours = False
            self._end(error)
            if self._interrupt.asked and self._stopped == "unreachable":
                self._stop("interrupted", "")  # we closed that connection ourselves

    def _end(self, error: Exception) -> None:
        failure = failure_of(error)
        what = failure.what.removeprefix(f"{self.name}: ")  # whoever shows it names the host
        text = f"{what} ({failure.do})" if failure.do else what
        self._stop(_status_of(error), text)

    def _stop(self, status: HostStatus, error: str) -> None:
        self._stopped = status
        self._error = error

    def _status(self) -> HostStatus:
        statuses = [outcome.status for outcome in self._outcomes.values()]
        if self._stopped is not None:
            return self._stopped
        if self._interrupt.asked and "skipped" in statuses:
            return "interrupted"
        for bad in ("failed", "reverted", "held"):
            if bad in statuses:
                return bad
        return "done" if "done" in statuses else "unchanged"

    def _of(self, phase: str) -> list[Change]:
        return [change for change in self._host.changes if change.phase == phase]

    def _keep(self, outcome: ChangeOutcome) -> None:
        self._outcomes[outcome.change] = outcome

    def _here(self) -> Target:
        assert self.target is not None
        return self.target


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
