"""Collects what is wrong, so that all of it is told at once. In: problems, in any order. Out: one error.

Also the words they share: values shown safely, the nearest valid name. Never shows more than a line of
anything a user wrote.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from ..errors import ManifestError, Problem

_SHOWN = 80
_LISTED = 12
_LOGIN = re.compile(r":[^\s/@]{1,256}@(?!sha[0-9]+:)")
"""A password before an address: where none belongs, somebody writes one all the same."""


class Problems:
    """Problems found so far; the same one found twice (a default used by many hosts) counts once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, where: str, what: str, do: str = "") -> None:
        """`where` is file:line:column; `what` one sentence; `do` what to write instead."""
        self._found[Problem(where, what, do)] = None

    def raise_if_any(self) -> None:
        """Raises ManifestError with every problem, in file order."""
        if self._found:
            raise ManifestError(self.in_file_order())

    def in_file_order(self) -> tuple[Problem, ...]:
        return tuple(sorted(self._found, key=_file_order))


def _file_order(problem: Problem) -> tuple[str, int, int]:
    parts = problem.where.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return parts[0], int(parts[1]), int(parts[2])
    return problem.where, 0, 0


def show(value: object) -> str:
    """A value for a message: in backticks, one line, printable, cut when long, without a password in an
    address."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, dict):
        return "a mapping"
    elif isinstance(value, (list, tuple)):
        return "a list"
    elif value is None:
        return "nothing"
    else:
        text = str(value)
    text = _LOGIN.sub(":…@", text)
    if len(text) > _SHOWN:
        text = text[:_SHOWN] + "…"
    return "`" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + "`"


def nearest(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name: the one probably meant, else what there is to choose from."""
    names = sorted(known)
    close = difflib.get_close_matches(name[:_SHOWN], names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {show(close[0])}?"
    if not names:
        return "there is none to choose from"
    listed = ", ".join(show(each) for each in names[:_LISTED])
    return f"known: {listed}" + (" …" if len(names) > _LISTED else "")
