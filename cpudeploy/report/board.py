"""Where every host stands while a plan is carried out. Events and times in, a picture of each host out.

Holds no lock and prints nothing: whoever shows it calls `take` from one thread at a time. Times are readings
of the caller's clock, in seconds; whatever depends on time is asked for with the time it is now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..types.event import (
    ChangeFinished,
    ChangeStarted,
    Event,
    HostFinished,
    HostStarted,
    Note,
    OperationStarted,
    Progress,
    StopAsked,
)
from ..types.plan import Plan
from .numbers import data_progress, data_size, duration, percent, rate, time_left
from .speed import Speed

_STALLED_S = 5.0
"""Seconds without a byte after which a download is said to stand still."""


@dataclass
class HostBoard:
    """One host: the running change and operation, bytes, the last line it said, and how it ended.

    No operation: it waits its turn.
    """

    host: str
    changes: int
    finished: int = 0
    subject: str = ""
    operation: str = ""
    may_be_cut: bool = False
    last_line: str = ""
    done: int = 0
    total: int = 0
    at_most_s: int = 0
    operation_started: float = 0.0
    status: str = ""
    _speed: Speed = field(default_factory=Speed)

    @property
    def active(self) -> bool:
        """Something is being done to the host right now."""
        return bool(self.operation) and not self.status

    def begin(self, operation: str, now: float, *, at_most_s: int = 0, may_be_cut: bool = False) -> None:
        """A new operation: nothing of the last one's bytes and lines remains."""
        self.operation, self.operation_started = operation, now
        self.at_most_s, self.may_be_cut = at_most_s, may_be_cut
        self.last_line, self.done, self.total = "", 0, 0
        self._speed = Speed()

    def advance(self, done: int, total: int, now: float) -> None:
        """Bytes so far. A count that falls is a new attempt: the speed starts afresh."""
        if done != self.done:
            self.last_line = ""  # what was said of the bytes before
        self.done, self.total = done, total
        self._speed.take(done, now)

    def waited(self, now: float) -> str:
        """`40 s`, and where it waits for something that happens by itself, `40 s of at most 5 min`."""
        told = duration(max(0.0, now - self.operation_started))
        return f"{told} of at most {duration(self.at_most_s)}" if self.at_most_s else told

    def bytes_text(self, now: float) -> str:
        """`1.1 of 2.2 GB · 50 % · 12 MB/s · 1 min 30 s left`, or empty without bytes."""
        if not self.done and not self.total:
            return ""
        parts = [data_size(self.done)]
        if self.total:
            parts = [data_progress(self.done, self.total), f"{percent(self.done, self.total)} %"]
        if self.total and self.done >= self.total:
            return " · ".join(parts)
        silent = self._speed.silent_s(now)
        if silent >= _STALLED_S and self.last_line:
            return " · ".join(parts)  # no bytes, but it says what it does instead
        if silent >= _STALLED_S:
            return " · ".join([*parts, f"stalled for {duration(round(silent))}"])
        speed = self._speed.at(now)
        if speed is not None and speed >= 1:
            parts.append(rate(speed))
            if self.total and self._speed.settled(now):
                parts.append(f"{time_left((self.total - self.done) / speed)} left")
        return " · ".join(parts)


class Board:
    """All hosts of one apply of `plan`."""

    def __init__(self, plan: Plan) -> None:
        self.hosts = {
            name: HostBoard(host=name, changes=len(host.changes)) for name, host in plan.hosts.items()
        }
        self._subjects = {
            (name, change.id): change.subject for name, host in plan.hosts.items() for change in host.changes
        }

    def take(self, event: Event, now: float) -> None:
        """Account for `event`, received at `now`."""
        if isinstance(event, StopAsked):
            return
        host = self.hosts.setdefault(event.host, HostBoard(host=event.host, changes=0))
        match event:
            case HostStarted():
                # One without changes is not even visited: it only waits for the others.
                host.begin("checks the host" if host.changes else "", now)
            case ChangeStarted():
                host.subject = event.subject
                host.begin("begins", now)
            case OperationStarted():
                host.subject = self.subject(event.host, event.change)
                host.begin(event.text, now, at_most_s=event.at_most_s, may_be_cut=event.may_be_cut)
            case Progress():
                if event.done or event.total:
                    host.advance(event.done, event.total, now)
                if event.text:
                    host.last_line = event.text
            case ChangeFinished():
                host.finished += 1
                host.begin("", now)
            case HostFinished():
                host.begin("", now)
                host.status = event.status
            case Note():
                pass

    def subject(self, host: str, change: str) -> str:
        """What a change of the plan is about, also before it has begun: an undo may come first."""
        return self._subjects.get((host, change), change)
