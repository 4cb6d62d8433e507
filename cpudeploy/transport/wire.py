"""What carries a dialogue: two byte streams out of a process somewhere, one into it.

`Wire` is the least that talk and streams need; `ssh.py` has it over a channel, `local.py` over pipes.
`WireStream` makes one a ByteStream once the dialogue has opened it.
"""

from __future__ import annotations

import time
from typing import Protocol

from ..errors import ConnectionLost, OperationFailed

STDERR_KEPT = 8192


class Wire(Protocol):
    """A started process. One thread receives, one (maybe another) sends."""

    def receive(self, timeout: float | None) -> tuple[bytes, bytes]:
        """What stdout and stderr have, waiting for the first byte; both empty: timeout or ended."""

    @property
    def ended(self) -> bool:
        """Both streams are at their end and drained."""

    @property
    def alive(self) -> bool:
        """The connection below still stands (whether or not the process does)."""

    def offer(self, data: bytes | memoryview, timeout: float | None) -> int:
        """Send some of `data`, waiting for room; 0 at timeout. Raises BrokenPipeError if it is shut."""

    def exit_status(self, timeout: float) -> int | None:
        """The process's exit code; None if none came (killed, or too late)."""

    def readable(self) -> bool:
        """Stdout or stderr has bytes, or ended."""

    def close(self) -> None:
        """Cut it off; what listens to its stdin sees the end."""


class Deadline:
    """A moment on the monotonic clock."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds until then, 0.0 when it is past, None if there is no end."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def past(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def last_line(*outputs: bytes | bytearray) -> str:
    """The last line that says something, of the first output that has one."""
    for output in outputs:
        for line in reversed(bytes(output[-4096:]).decode(errors="replace").splitlines()):
            if line.strip():
                return line.strip()[:300]
    return ""


class WireStream:
    """A ByteStream over a wire. stderr is drained beside and shown if the far end never spoke."""

    def __init__(
        self, wire: Wire, *, where: str, failure: str, first: bytes = b"", stderr: bytes = b""
    ) -> None:
        self._wire = wire
        self._where = where
        self._failure = failure
        self._held = bytearray(first)
        self._stderr = bytearray(stderr)
        self._spoke = bool(first)
        self._closed = False

    def read(self, size: int, timeout: float | None = None) -> bytes:
        deadline = Deadline(timeout)
        while not self._held:
            if self._closed:
                raise ConnectionLost("the stream was closed", where=self._where)
            out, err = self._wire.receive(deadline.left())
            self._held += out
            self._stderr = (self._stderr + err)[-STDERR_KEPT:]
            if not out and self._wire.ended:
                return self._at_end()
            if not out and deadline.past:
                raise TimeoutError(f"{self._where}: nothing came for {timeout} s")
        self._spoke = True
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def _at_end(self) -> bytes:
        if not self._wire.alive:
            raise ConnectionLost("the connection broke", where=self._where)
        said = self._stderr.decode(errors="replace").strip()
        if said and not self._spoke:
            what = f"{self._failure}: {said}" if self._failure else said
            raise OperationFailed(what, where=self._where)
        return b""

    def write(self, data: bytes, timeout: float | None = None) -> None:
        view = memoryview(data)
        while view:
            try:
                sent = self._wire.offer(view, timeout)
            except BrokenPipeError:
                raise ConnectionLost("the stream was shut while sending", where=self._where) from None
            if not sent:
                raise TimeoutError(f"{self._where}: nothing was taken for {timeout} s")
            view = view[sent:]

    def readable(self) -> bool:
        return bool(self._held) or self._wire.readable()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wire.close()
