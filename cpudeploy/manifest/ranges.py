"""Ranges in host names and addresses. In: `xeon-[01:04]`. Out: xeon-01 to xeon-04. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"\[([0-9]{1,9}):([0-9]{1,9})\]")
_MOST = 1000


@dataclass(frozen=True)
class Range:
    """A text with one run of numbers in it, `width` digits each where they are padded (else 0)."""

    before: str
    first: int
    last: int
    width: int
    after: str

    def __len__(self) -> int:
        return self.last - self.first + 1

    def texts(self) -> tuple[str, ...]:
        """Every text it stands for, in order."""
        numbers = range(self.first, self.last + 1)
        return tuple(f"{self.before}{number:0{self.width}d}{self.after}" for number in numbers)


def find_range(text: str) -> Range | None:
    """The range in a text; None without one. Raises ValueError with one clause for people."""
    found = list(_RANGE.finditer(text))
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"has {len(found)} ranges; one is taken, so write several such names")
    first, last = found[0].groups()
    padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
    if padded and len(first) != len(last):
        raise ValueError(f"has a range from {first} to {last}: padded numbers are of one length")
    count = int(last) - int(first) + 1
    if count < 1:
        raise ValueError(f"has the backward range {found[0][0]}")
    if count > _MOST:
        raise ValueError(f"stands for {count} hosts; a range may have {_MOST}")
    return Range(
        before=text[: found[0].start()],
        first=int(first),
        last=int(last),
        width=len(first) if padded else 0,
        after=text[found[0].end() :],
    )
