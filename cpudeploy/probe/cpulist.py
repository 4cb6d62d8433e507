"""Numbers and sets of numbers (`0-3,8`) as the kernel writes them. Pure."""

from __future__ import annotations

_DIGITS = 15
"""A thousand terabytes; the v1 way to write `no limit` has more."""
_HIGHEST = 1 << 16
"""More processors than any kernel is built for; a longer range is damage, not a machine."""


def whole(word: str | None) -> int | None:
    """A number of no more digits than any size, count or id has; None for all else."""
    return int(word) if word and word.isdecimal() and len(word) <= _DIGITS else None


def cpu_list(text: str) -> frozenset[int]:
    """The numbers of a list; what follows a blank is no part of it, nor is anything that can't be read."""
    found: set[int] = set()
    for part in (text.split() or [""])[0].split(","):
        first, dash, last = part.partition("-")
        begin, end = whole(first), whole(last if dash else first)
        if begin is not None and end is not None and end < _HIGHEST:
            found.update(range(begin, end + 1))
    return frozenset(found)
