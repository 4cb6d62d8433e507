"""How many may be logging in at one address at a time: sshd drops those beyond ten (MaxStartups).

Hosts behind one jump all knock at its door. Held by whoever connects to many; nothing here connects.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .settings import Settings

MOST_STARTS = 8


class Starts:
    """One turnstile an address."""

    def __init__(self) -> None:
        self._doors: dict[tuple[str, int], threading.Semaphore] = {}
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, settings: Settings) -> Iterator[None]:
        """Hold a turn at the first hop towards a host."""
        first = settings
        while first.jump is not None:
            first = first.jump
        # What stands behind a command is its own affair; several of the same lead to the same door.
        place = (first.proxy_command or first.address, first.port)
        with self._lock:
            door = self._doors.setdefault(place, threading.Semaphore(MOST_STARTS))
        with door:
            yield
