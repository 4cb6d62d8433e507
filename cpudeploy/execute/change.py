"""One change on one host: fingerprints, operations in order, on failure the revert. Knows no drivers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ..errors import ConnectError, CpudeployError, GateFailed, Locked, OperationFailed, StalePlan
from ..plan.fingerprint import changed_since, matches
from ..types import operation as op
from ..types.base import to_json
from ..types.event import ChangeFinished, ChangeStarted, Event, Note, OperationStarted, Progress
from ..types.facts import Facts
from ..types.outcome import ChangeOutcome, ChangeStatus, Failure, HostStatus
from ..types.plan import Change
from ..types.safety import InFlight
from .describe import describe
from .failure import failure_of
from .interrupt import Interrupt, Interrupted

Tell = Callable[[Event], None]


class Target(Protocol):
    """A host that operations happen to; real or simulated. Errors are CpudeployErrors.

    Once it is locked every method but `close` raises Locked as soon as the lease is another's.
    """

    def lock(self, plan: str) -> None:
        """Take the host's lease for the plan of that id, and keep it until `unlock` or `close`.
        Raises Locked, naming who holds it."""

    def unlock(self) -> None:
        """Give the lease back. Without one that is done."""

    def facts(self) -> Facts: ...

    def settle(self) -> None:
        """Have the guards that an earlier apply left put back what they guard, now, and forget what was in
        flight. Nothing to settle is done."""

    def begin(self, change: Change) -> None:
        """Note on the host that this change is under way, before its first operation."""

    def end(self, change: Change, status: ChangeStatus) -> None:
        """Note that the change is over: done, or undone."""

    def finish(self, status: HostStatus, *, used: bool) -> None:
        """Note how it ended on this host. `used`: the saved plan of `lock` is done here for good."""

    def perform(self, operation: op.Operation, tell: Tell) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Carried:
    """What became of a change; `fatal`: why nothing more can be done on this host."""

    outcome: ChangeOutcome
    fatal: CpudeployError | None = None


def document(facts: Facts) -> Any:
    """Facts in the JSON form that fingerprints speak of."""
    return msgspec.json.decode(to_json(facts))


def check_fresh(change: Change, facts: Any, *, quantities: bool) -> bool:
    """True: still to do. False: done already. Raises StalePlan when the host is neither before nor after.

    Without `quantities` only identity counts: memory or disk may yet be freed by an earlier change.
    An empty `after` says nothing, so such a change is always done.
    """
    if already(change, facts):
        return False
    before = change.before if quantities else msgspec.structs.replace(change.before, at_least={})
    wrong = matches(before, facts)
    if wrong:
        raise StalePlan(changed_since(wrong), do="the host changed since the plan was made: plan again")
    return True


def already(change: Change, facts: Any) -> bool:
    """Whether the host is as the change leaves it. Of one that does not say how, nobody can tell."""
    after = change.after
    return bool(after.equals or after.at_least) and not matches(after, facts)


def finished(host: str, change: Change, status: ChangeStatus, since: float, tell: Tell) -> ChangeOutcome:
    """An outcome without a failure, told."""
    return _end(host, change, status, since, tell, None)


def carry_out(
    change: Change, facts: Any, target: Target, host: str, tell: Tell, interrupt: Interrupt
) -> Carried:
    """Do what is still to do of `change`. `facts`: the host's document just before.

    What is committed is not undone: what fails or is interrupted then is only cleared away less.
    """
    since = time.monotonic()
    committed = False
    try:
        if not check_fresh(change, facts, quantities=True):
            return Carried(finished(host, change, "already", since, tell))
    except StalePlan as stale:
        return Carried(_end(host, change, "failed", since, tell, failure_of(stale)), stale)
    tell(ChangeStarted(host=host, change=change.id, subject=change.subject))
    try:
        target.begin(change)
        if change.unknown:
            raise OperationFailed(
                f"nobody can carry this out: {change.unknown}", do="plan again, asking hosts"
            )
        for operation in change.operations:
            if interrupt.asked and not committed:
                raise Interrupted("interrupted")
            _perform(operation, change, target, host, tell, interrupt)
            committed = committed or isinstance(operation, op.GuardCommit)
        target.end(change, "done")
    except Exception as error:
        return _fail(change, error, target, host, since, tell, committed=committed)
    return Carried(finished(host, change, "done", since, tell))


def _perform(
    operation: op.Operation, change: Change, target: Target, host: str, tell: Tell, interrupt: Interrupt
) -> None:
    """One operation. Those that only fetch or watch end at their next sign of life when asked to stop."""
    tell(_started(host, change, operation, describe(operation)))

    relayed = _relay(host, change, tell)

    def told(event: Event) -> None:
        relayed(event)
        if interrupt.asked and isinstance(event, Progress) and _may_be_cut(operation):
            raise Interrupted("interrupted")

    target.perform(operation, told)


def was_committed(change: Change, found: Facts) -> bool:
    """Whether the change that the journal of `found` names had come past its commit. A guard that is still
    there says that it had not: a revert may have operations of the same name."""
    left = found.in_flight
    if not isinstance(left, InFlight) or any(guard.change == change.id for guard in found.guards.values()):
        return False
    return left.operation in [operation.id for operation in _behind_commit(change)]


def has_proven_itself(change: Change, facts: Any) -> bool:
    """Whether the new one serves as the change means to leave it, and all that is missing is that something
    goes. `facts`: the host's document once its guards are settled; they leave such a one alone, too."""
    proves = any(isinstance(operation, op.Prove) for operation in change.operations)
    wrong = matches(change.after, facts)
    return proves and bool(_behind_commit(change)) and all(each.wanted is None for each in wrong)


def _behind_commit(change: Change) -> tuple[op.Operation, ...]:
    """What only clears away: with it goes what the way back led to."""
    commits = [n for n, each in enumerate(change.operations) if isinstance(each, op.GuardCommit)]
    return change.operations[commits[-1] + 1 :] if commits else ()


def note_proven(change: Change, target: Target, host: str, tell: Tell) -> None:
    """Note again on the host that the new one has passed its gate. Raises what an operation raises."""
    _again([each for each in change.operations if isinstance(each, op.Prove)], change, target, host, tell)


def finish(change: Change, target: Target, host: str, tell: Tell) -> None:
    """Do again what follows once the new one has passed its gate: note it, and what is behind the commit.
    Raises what an operation raises."""
    note_proven(change, target, host, tell)
    _again(_behind_commit(change), change, target, host, tell)


def _again(operations: Sequence[op.Operation], change: Change, target: Target, host: str, tell: Tell) -> None:
    for operation in operations:
        tell(_started(host, change, operation, describe(operation)))
        target.perform(operation, _relay(host, change, tell))


def _fail(
    change: Change,
    error: Exception,
    target: Target,
    host: str,
    since: float,
    tell: Tell,
    *,
    committed: bool,
) -> Carried:
    failure = failure_of(error)
    if isinstance(error, ConnectError | Locked):
        # Nothing can be undone through a connection that is gone or a lease that is another's.
        return Carried(_end(host, change, "failed", since, tell, failure), error)
    if committed:
        if change.phase == "replace" and change.action == "update":
            failure = msgspec.structs.replace(failure, serving="the new version serves")
        return Carried(_end(host, change, "failed", since, tell, failure))
    undone = undo(change, target, host, tell)
    status: ChangeStatus = "reverted" if undone and change.revert else "failed"
    if status == "reverted":
        failure = msgspec.structs.replace(failure, serving=_serving(change))
    try:
        if change.hold is not None and isinstance(error, GateFailed):
            held = msgspec.structs.replace(change.hold, what=failure.what, cause=failure.cause, do=failure.do)
            target.perform(held, _relay(host, change, tell))
        if undone:
            target.end(change, status)
    except CpudeployError as lost:
        text = f"what failed could not be noted on the host: {lost.what}"
        tell(Note(host=host, change=change.id, text=text, level="warning"))
    outcome = _end(host, change, status, since, tell, failure)
    return Carried(outcome, error if isinstance(error, Interrupted | StalePlan) else None)


def undo(change: Change, target: Target, host: str, tell: Tell, *, prove: bool = True) -> bool:
    """Undo as far as it goes; whether all of it worked. Nothing to undo is that, too. Without `prove` nobody
    waits until what is put back serves: it is about to be replaced again."""
    worked = True
    for operation in change.revert or ():
        if isinstance(operation, op.Wait) and not prove:
            continue
        if isinstance(operation, op.GuardCommit) and not worked:
            continue  # what we could not put back, the guard still can
        tell(_started(host, change, operation, f"revert: {describe(operation)}"))
        try:
            target.perform(operation, _relay(host, change, tell))
        except Exception as error:
            worked = False
            text = f"could not revert ({describe(operation)}): {failure_of(error).what}"
            tell(Note(host=host, change=change.id, text=text, level="warning"))
            if isinstance(error, ConnectError | Locked):
                break
    return worked


def _serving(change: Change) -> str:
    """What answers after a revert; proven only where the revert itself waited for it."""
    if change.phase != "replace" or change.action != "update":
        return ""
    proven = any(isinstance(operation, op.Wait) for operation in change.revert or ())
    return "the old version serves again" if proven else "the old version was started again"


def _may_be_cut(operation: op.Operation) -> bool:
    """Cut short these leave nothing half-done: a fetch resumes, a pull is atomic, the others only look."""
    if isinstance(operation, op.Engine):
        return isinstance(operation.request, op.PullImage)
    return isinstance(operation, op.Fetch | op.Wait | op.Drain)


def _relay(host: str, change: Change, tell: Tell) -> Tell:
    """A driver knows neither its host's name nor the change it works for: filled in here."""

    def told(event: Event) -> None:
        if isinstance(event, Progress | Note):
            event = msgspec.structs.replace(event, host=host, change=change.id)
        tell(event)

    return told


def _started(host: str, change: Change, operation: op.Operation, text: str) -> OperationStarted:
    return OperationStarted(
        host=host,
        change=change.id,
        operation=operation.id,
        text=text,
        at_most_s=operation.deadline_s if isinstance(operation, op.Wait | op.Drain) else 0,
        may_be_cut=_may_be_cut(operation),
    )


def _end(
    host: str, change: Change, status: ChangeStatus, since: float, tell: Tell, failure: Failure | None
) -> ChangeOutcome:
    seconds = time.monotonic() - since
    tell(
        ChangeFinished(
            host=host,
            change=change.id,
            subject=change.subject,
            status=status,
            seconds=seconds,
            text=failure.what if failure else "",
        )
    )
    return ChangeOutcome(
        change=change.id, subject=change.subject, status=status, seconds=seconds, failure=failure
    )
