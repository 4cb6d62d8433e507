"""What a stream can show, and writing to it. A stream and the environment in, a `Console` out.

Decided once, here: whether it is a terminal, in colour, how wide. Never asks the environment again later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

PLAIN_WIDTH = 120
"""Columns for what is no terminal: logs of pipelines, files."""
_LEAST_WIDTH = 40
# Our own signs, for streams whose encoding has none of them.
_ASCII = str.maketrans(
    {
        "→": "->",
        "×": "x",
        "·": "-",
        "…": "...",
        "✓": "ok",
        "✗": "!!",
        "–": "-",
        "≤": "<=",
        "µ": "u",
        "━": "=",
        "╌": "-",
    }
)


@dataclass(frozen=True)
class Console:
    """A stream with what it can show. `width` in columns."""

    stream: TextIO
    terminal: bool
    colour: bool
    width: int

    def shown(self, text: str) -> str:
        """`text` in what the stream's encoding has: our own signs in ASCII, anything else escaped."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
        return text

    def write(self, text: str) -> None:
        """`text` and a line end, in whatever encoding the stream has; what it lacks is escaped."""
        self.stream.write(self.shown(text) + "\n")
        self.stream.flush()

    def try_write(self, text: str) -> None:
        """`write`, but a reader that went away is not an error: an apply goes on when nobody listens."""
        with contextlib.suppress(OSError):
            self.write(text)


def console_for(stream: TextIO, environ: Mapping[str, str]) -> Console:
    """What `stream` can show. NO_COLOR (set and not empty) takes the colour, TERM=dumb all control codes."""
    terminal = stream.isatty() and environ.get("TERM", "") != "dumb"
    return Console(
        stream=stream,
        terminal=terminal,
        colour=terminal and not environ.get("NO_COLOR"),
        width=_width(stream, environ, terminal),
    )


def _width(stream: TextIO, environ: Mapping[str, str], terminal: bool) -> int:
    asked = environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit() and int(asked) > 0:
        return max(int(asked), _LEAST_WIDTH)
    if not terminal:
        return PLAIN_WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(columns, _LEAST_WIDTH) if columns else 80
