"""Ctrl-C (or a pipeline's SIGTERM) as a wish that running work can ask about. Never raises into it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ..errors import INTERRUPTED, CpudeployError

_TELL_S = 5.0
"""Seconds to wait until the last wish was told: a log that takes nothing keeps nobody from ending."""


class Interrupted(CpudeployError):
    """Work stopped because somebody asked for it; what it did so far stays usable."""

    code = INTERRUPTED


class Interrupt:
    """Asked once: stop after the running operation. Asked twice: stop now, by closing connections."""

    def __init__(self, told: Callable[[bool], None] = lambda now: None) -> None:
        """`told(now)` hears of each wish, in a thread of its own; `now`: there is no time left."""
        self._told = told
        self._telling: list[threading.Thread] = []
        self._asked = threading.Event()
        self._now = threading.Event()
        self._lock = threading.RLock()
        self._closers: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def ask(self) -> None:
        """One more wish to stop."""
        if not self._asked.is_set():
            self._asked.set()
            self._tell(now=False)
            return
        if not self._now.is_set():
            self._tell(now=True)
        self._now.set()
        with self._lock:
            closers, self._closers = self._closers, []
        for close in closers:
            # In a thread of its own: this may run in a signal handler, and closing may block.
            threading.Thread(target=close, daemon=True).start()

    def _tell(self, *, now: bool) -> None:
        # So may telling: who is interrupted may be telling something at this very moment.
        thread = threading.Thread(target=self._told, args=(now,), daemon=True)
        self._telling.append(thread)
        thread.start()

    def on_now(self, close: Callable[[], None]) -> None:
        """Have `close` called when there is no time left; at once if that is so already."""
        with self._lock:
            self._closers.append(close)
        if self._now.is_set():
            close()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn SIGINT and SIGTERM into wishes. Outside the main thread signals are not ours to take."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def asked(_number: int, _frame: FrameType | None) -> None:
            self.ask()

        before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for thread in self._telling:
                thread.join(_TELL_S)
