"""How fast a count grows. Readings and times in, bytes a second out: smooth, and soon true again.

Readings come when they come, several a second or one in ten. Times are of the caller's clock, in seconds.
"""

from __future__ import annotations

from collections import deque

_WINDOW_S = 15.0
_SETTLED_S = 3.0
"""Seconds of readings before the speed says anything about how long the rest takes."""


class Speed:
    """The mean over the last seconds, silence included: what stands still slows down at once."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int]] = deque()
        self._moved = 0.0

    def take(self, count: int, now: float) -> None:
        """A reading. One that falls begins anew."""
        if self._readings and count < self._readings[-1][1]:
            self._readings.clear()
        if not self._readings or count > self._readings[-1][1]:
            self._moved = now
        self._readings.append((now, count))
        self._forget(now)

    def at(self, now: float) -> float | None:
        """Bytes a second; None while there is too little to tell from."""
        self._forget(now)
        if len(self._readings) < 2:
            return None
        (first, before), (last, after) = self._readings[0], self._readings[-1]
        # Readings may be seconds apart: silence counts only once it is longer than they usually are.
        usual = (last - first) / (len(self._readings) - 1)
        passed = last - first + max(0.0, now - last - 2 * usual)
        return (after - before) / passed if passed > 0 else None

    def settled(self, now: float) -> bool:
        """Whether the speed is one that may be counted on."""
        return len(self._readings) > 2 and now - self._readings[0][0] >= _SETTLED_S

    def silent_s(self, now: float) -> float:
        """Seconds since the count grew last; 0 before any reading."""
        return now - self._moved if self._readings else 0.0

    def _forget(self, now: float) -> None:
        """Drop readings that are older than the window, but for the last two."""
        while len(self._readings) > 2 and now - self._readings[0][0] > _WINDOW_S:
            self._readings.popleft()
