"""The words for how a change and a host ended, the same on a terminal and in a log. Events in, text out."""

from __future__ import annotations

from ..types.event import ChangeFinished, HostFinished
from .numbers import duration

END_SIGNS = {"done": "✓", "already": "=", "failed": "✗", "reverted": "✗", "skipped": "-"}
END_STYLES = {"done": "green", "already": "dim", "failed": "red", "reverted": "red", "skipped": "dim"}
_WORDS = {
    "done": "done in",
    "already": "already as wanted, checked in",
    "failed": "failed after",
    "reverted": "failed and was undone after",
}


def change_end(event: ChangeFinished) -> str:
    """`weights: done in 35 s`, with what went wrong where something did."""
    if event.status == "skipped":
        told = f"{event.subject}: skipped"
    else:
        told = f"{event.subject}: {_WORDS[event.status]} {duration(event.seconds)}"
    return f"{told}: {event.text}" if event.text else told


def host_end(event: HostFinished) -> str:
    """`done in 48 s`, or how else the host ended."""
    return f"host {event.status} after {duration(event.seconds)}"
