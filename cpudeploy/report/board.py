"""Where every host stands while a plan is carried out. Events and times in, a picture of each host out.

Holds no lock and prints nothing: whoever shows it calls `take` from one thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
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
)
from .numbers import data_progress, data_size, duration, percent, rate

_RATE_WINDOW_S = 15.0


@dataclass
class HostBoard:
    """One host: the running change and operation, bytes, the last line it said, and how it ended.

    `operation_started` is a reading of the caller's clock, in seconds. No operation: it waits its turn.
    """

    host: str
    changes: int
    finished: int = 0
    subject: str = ""
    operation: str = ""
    last_line: str = ""
    done: int = 0
    total: int = 0
    operation_started: float = 0.0
    status: str = ""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def active(self) -> bool:
        """Something is being done to the host right now."""
        return bool(self.operation) and not self.status

    def begin(self, operation: str, now: float) -> None:
        """A new operation: nothing of the last one's bytes and lines remains."""
        self.operation, self.operation_started = operation, now
        self.last_line, self.done, self.total = "", 0, 0
        self._samples.clear()

    def advance(self, done: int, total: int, now: float) -> None:
        """Bytes so far. A count that falls is a new attempt: the speed starts afresh."""
        if done < self.done:
            self._samples.clear()
        self.done, self.total = done, total
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()

    @property
    def bytes_per_s(self) -> float | None:
        """Speed over the last seconds; None while there is too little to tell from."""
        if len(self._samples) < 2:
            return None
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last - first) if last > first else None

    @property
    def bytes_text(self) -> str:
        """`1.1 of 2.2 GB · 50 % · 12 MB/s · 1 min 30 s left`, or empty without bytes."""
        if not self.done and not self.total:
            return ""
        parts = [data_size(self.done)]
        if self.total:
            parts = [data_progress(self.done, self.total), f"{percent(self.done, self.total)} %"]
        speed = self.bytes_per_s
        if speed is not None and speed > 0:
            parts.append(rate(speed))
            if self.total > self.done:
                parts.append(f"{duration((self.total - self.done) / speed)} left")
        elif speed is not None and self.done < self.total:
            parts.append("stalled")
        return " · ".join(parts)


class Board:
    """All hosts of one apply. `changes`: host → how many changes its plan has."""

    def __init__(self, changes: Mapping[str, int]) -> None:
        self.hosts = {host: HostBoard(host=host, changes=number) for host, number in changes.items()}
        self._subjects: dict[tuple[str, str], str] = {}

    def take(self, event: Event, now: float) -> HostBoard:
        """Account for `event`, received at `now`; returns its host."""
        host = self.hosts.setdefault(event.host, HostBoard(host=event.host, changes=0))
        match event:
            case HostStarted():
                # One without changes is not even visited: it only waits for the others.
                host.begin("checks the host" if host.changes else "", now)
            case ChangeStarted():
                self._subjects[event.host, event.change] = event.subject
                host.subject = event.subject
                host.begin("begins", now)
            case OperationStarted():
                host.subject = self.subject(event.host, event.change)
                host.begin(event.text, now)
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
        return host

    def subject(self, host: str, change: str) -> str:
        """The subject a change announced when it started, else its id."""
        return self._subjects.get((host, change), change)
