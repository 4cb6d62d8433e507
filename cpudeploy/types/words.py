"""Numbers and times in the words of reasons and summaries. Pure; `report/numbers` has those of tables."""

from __future__ import annotations

import calendar
import time

_DECIMAL = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def count(number: int, noun: str) -> str:
    """`1 model`, `2 models`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def decimal_size(size: int) -> str:
    """Bytes to move or to free, in decimal units: `86 MB`, `2.2 GB`."""
    for unit, scale in _DECIMAL:
        if size >= scale:
            value = size / scale
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{size} B"


def seconds_since(at: str, now: int) -> int | None:
    """Seconds from a time in RFC 3339 (UTC) to `now`, by the same clock; None for what is no time."""
    try:
        return max(0, now - calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None
