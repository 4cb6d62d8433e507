"""An operation's deadline, kept by the streams it works through: an answer that only trickles ends there too.

Timeouts of a stream are about silence. What bounds the whole is here, below HTTP, where every wait happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import OperationFailed
from ..transport.base import ByteStream
from ..transport.wire import Deadline

T = TypeVar("T")


class Due:
    """When `what` must be done. Begins to count when made."""

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._deadline = Deadline(seconds)

    @property
    def past(self) -> bool:
        return self._deadline.past

    def wait_s(self, at_most: float | None = None) -> float:
        """How long one may wait now: what is left, or `at_most`. Raises OperationFailed when it is over."""
        left = self._deadline.left() or 0.0
        if left <= 0:
            raise OperationFailed(f"{self._what}: not done in {self._seconds:g} s")
        return left if at_most is None else min(left, at_most)


class DueStream:
    """A ByteStream that ends every wait when `due()` is over. None: there is no end."""

    def __init__(self, stream: ByteStream, due: Callable[[], Due | None]) -> None:
        self._stream = stream
        self._due = due

    def read(self, size: int, timeout: float | None = None) -> bytes:
        return self._within(lambda wait_s: self._stream.read(size, wait_s), timeout)

    def write(self, data: bytes, timeout: float | None = None) -> None:
        self._within(lambda wait_s: self._stream.write(data, wait_s), timeout)

    def readable(self) -> bool:
        return self._stream.readable()

    def close(self) -> None:
        self._stream.close()

    def _within(self, act: Callable[[float | None], T], silence_s: float | None) -> T:
        due = self._due()
        if due is None:
            return act(silence_s)
        try:
            return act(due.wait_s(silence_s))
        except TimeoutError:
            due.wait_s()  # tells that apart from silence
            raise
