"""Progress where there is no terminal: events in, plain whole lines out, from any thread.

Tells starts, notes and ends at once, progress at most every ten seconds a host, and by itself that a
host is still at it when nothing else was heard: a pipeline's log never falls silent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

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
from .board import Board, HostBoard
from .console import Console
from .live_text import END_SIGNS, about, change_end, host_end, stop_asked
from .text import clean, pad, widest

_OfHost = HostStarted | ChangeStarted | OperationStarted | Progress | Note | ChangeFinished | HostFinished
BEAT_S = 10.0
_WIDEST_HOST = 24


class LiveLines:
    """Consumer of events. `clock` gives seconds, as time.monotonic does."""

    def __init__(self, console: Console, plan: Plan, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._board = Board(plan)
        self._column = widest(plan.hosts, most=_WIDEST_HOST)
        self._told: dict[str, float] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat_until_closed, name="heartbeat", daemon=True)

    def __enter__(self) -> LiveLines:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._heart.join()

    def tell(self, event: Event) -> None:
        """Account for `event`, and write what it is worth."""
        with self._lock:
            now = self._clock()
            self._board.take(event, now)
            if isinstance(event, Progress):
                self._still(self._board.hosts[event.host], now)
            elif isinstance(event, StopAsked):
                self._console.try_write(clean(stop_asked(event, self._board)))
            else:
                self._line(event.host, self._text(event), now)

    def beat(self) -> None:
        """Write a line for every busy host that was quiet for ten seconds."""
        with self._lock:
            now = self._clock()
            for host in self._board.hosts.values():
                if host.active:
                    self._still(host, now)

    def _text(self, event: _OfHost) -> str:
        match event:
            case HostStarted():
                return "starts"
            case ChangeStarted():
                return f"{event.subject}: starts"
            case OperationStarted():
                return f"{about(event, self._board)}{event.text}"
            case Note():
                mark = "warning: " if event.level == "warning" else ""
                return f"{about(event, self._board)}{mark}{event.text}"
            case ChangeFinished():
                return f"{END_SIGNS[event.status]} {change_end(event)}"
            case HostFinished():
                return host_end(event)
            case Progress():
                return event.text

    def _still(self, host: HostBoard, now: float) -> None:
        if now - self._told.get(host.host, now - BEAT_S) < BEAT_S:
            return
        subject = f"{host.subject}: " if host.subject else ""
        parts = [f"{subject}still {host.operation}", host.waited(now), host.bytes_text(now), host.last_line]
        self._line(host.host, " · ".join(part for part in parts if part), now)

    def _line(self, host: str, text: str, now: float) -> None:
        self._told[host] = now
        self._console.try_write(f"{pad(clean(host), self._column)}  {clean(text)}")

    def _beat_until_closed(self) -> None:
        while not self._closing.wait(BEAT_S):
            self.beat()
