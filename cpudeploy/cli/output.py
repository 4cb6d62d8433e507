"""This process's stdout, whose reader may go away before we are done (`cpudeploy facts | head`).

In: the stream Python opened. Out: one that can show any text and that tells a lost reader, and output that
can't be kept, apart from every other broken connection. Never loses text while somebody reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ReaderGone(OSError):
    """Nobody reads our output any more. Has no errno: click would end the process for EPIPE, silently."""


class OutputFailed(OSError):
    """Our output can't be written (disk full). An OSError, so that what must go on unread goes on."""


class Output:
    """`stream`, except that a lost reader raises ReaderGone and any other fault OutputFailed; characters it
    has no code for are escaped. `fault`: the last OutputFailed in words, empty without one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.fault = ""
        stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        with self._explained():
            written: int = self._stream.write(text)
        return written

    def flush(self) -> None:
        with self._explained():
            self._stream.flush()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise ReaderGone("nobody reads the output") from None
        except OSError as error:
            self.fault = f"cannot write the output: {error.strerror or error}"
            raise OutputFailed(self.fault) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_output() -> Output:
    """Make stdout an Output. A stream that was closed before we began becomes one that keeps nothing, or
    has nothing to read."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    output = Output(sys.stdout)
    sys.stdout = output
    return output


def close_output() -> None:
    """Bring out what is left. What a lost reader leaves unread goes nowhere, without a word at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
