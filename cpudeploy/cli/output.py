"""This process's stdout, whose reader may go away before we are done (`cpudeploy facts | head`).

In: the stream Python opened. Out: one that can show any text and that tells a lost reader apart from
every other broken connection. Never loses text while somebody reads.
"""

from __future__ import annotations

import os
import sys
from typing import Any


class ReaderGone(OSError):
    """Nobody reads our output any more. Has no errno: click would end the process for EPIPE, silently."""


class Output:
    """`stream`, except that a lost reader raises ReaderGone; characters it has no code for are escaped."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        try:
            written: int = self._stream.write(text)
        except BrokenPipeError:
            raise ReaderGone("nobody reads the output") from None
        return written

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise ReaderGone("nobody reads the output") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_output() -> None:
    """Make stdout an Output. A stream that was closed before we began becomes one that keeps nothing."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stdout = Output(sys.stdout)


def close_output() -> None:
    """Bring out what is left. What a lost reader leaves unread goes nowhere, without a word at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
