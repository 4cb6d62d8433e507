"""Text made safe and laid out: words in, lines out. Never passes on a control character it was given.

Everything shown goes through `clean`, whoever wrote it: container logs, names and messages of hosts
may hold escape sequences. Colour is added after that, by `Ink` alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_SGR = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Control, format (bidi overrides, zero width), surrogate, and the Unicode line separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_TOKEN = re.compile(r" *[^ ]+")
_LEAST_TAIL = 24
"""Columns below which text goes under its cells instead of beside them."""


class Ink:
    """Colours, or nothing at all."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, style: str) -> str:
        """`text` (already clean) in `style`; empty style or no colour leaves it as it is."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.colour and style and text else text


class Cell(NamedTuple):
    """A piece of a line: text, style, and the columns it takes at least."""

    text: str
    style: str = ""
    width: int = 0


def clean(text: str) -> str:
    """`text` on one line with every character a terminal would act on shown as an escape (`\\x1b`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text.replace("\t", "    "))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE:
        return character
    short = {"\n": "\\n", "\r": "\\r"}.get(character)
    code = ord(character)
    if short is None:
        short = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return short


def lines_of(text: str) -> list[str]:
    """`text` cut at its line ends, each line clean. Only `\\n` and `\\r\\n` end a line."""
    return [clean(line.removesuffix("\r")) for line in text.removesuffix("\n").split("\n")]


def cells(text: str) -> int:
    """Columns `text` takes on a terminal (wide East Asian characters take two)."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int) -> str:
    """`text` with spaces up to `width` columns."""
    return text + " " * (width - cells(text))


def widest(texts: Iterable[str], *, most: int) -> int:
    """Columns of the widest text that is no wider than `most` (0 without one)."""
    return max((size for size in map(cells, map(clean, texts)) if size <= most), default=0)


def truncate(text: str, width: int) -> str:
    """`text` cut to `width` columns, the cut shown as `…`."""
    if cells(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += _cell(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def shorten_pair(before: str, after: str, limit: int) -> tuple[str, str]:
    """Two differing texts cut to about `limit` columns each, so that the first difference stays in view."""
    if max(cells(before), cells(after)) <= limit:
        return before, after
    same = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    start = max(0, same - limit // 3)
    lead = "…" if start else ""
    return truncate(lead + before[start:], limit), truncate(lead + after[start:], limit)


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, broken at spaces only: references and paths stay whole."""
    lines: list[str] = []
    line = ""
    for token in _TOKEN.findall(text):
        if line and cells(line) + cells(token) > width:
            lines.append(line)
            line = token.lstrip(" ")
        else:
            line += token
    return [*lines, line]


def flow(ink: Ink, head: Sequence[Cell], tail: str = "", *, width: int, style: str = "") -> list[str]:
    """One entry: `head` side by side, then `tail` wrapped beside it, further lines indented below.

    Line ends in `tail` are kept. Where the head leaves no room, the tail goes below it.
    """
    shown = [cell._replace(text=clean(cell.text)) for cell in head]
    plain = "".join(pad(cell.text, cell.width) for cell in shown)
    painted = "".join(ink(cell.text, cell.style) + " " * (cell.width - cells(cell.text)) for cell in shown)
    if not tail.strip():
        return [_unpadded(painted, plain)]
    column = cells(plain)
    paragraphs = lines_of(tail)
    below = width - column < _LEAST_TAIL and column + max(map(cells, paragraphs)) > width
    if below:
        column = len(plain) - len(plain.lstrip(" ")) + 4
    body = [line for paragraph in paragraphs for line in wrap(paragraph, max(width - column, _LEAST_TAIL))]
    indented = [(" " * column + ink(line, style)) if line else "" for line in body]
    if below:
        return [_unpadded(painted, plain), *indented]
    return [painted + ink(body[0], style), *indented[1:]]


def _unpadded(painted: str, plain: str) -> str:
    """`painted` without the padding at its end."""
    spare = len(plain) - len(plain.rstrip(" "))
    return painted[: len(painted) - spare] if spare and painted.endswith(" " * spare) else painted
