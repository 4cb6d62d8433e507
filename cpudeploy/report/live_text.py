"""The words for how a change and a host ended, the same on a terminal and in a log. Events in, text out."""

from __future__ import annotations

from ..types.event import ChangeFinished, HostFinished, Note, OperationStarted, StopAsked
from ..types.words import count
from .board import Board
from .numbers import duration

END_SIGNS = {"done": "✓", "already": "=", "failed": "✗", "reverted": "✗", "skipped": "-", "held": "!"}
END_STYLES = {
    "done": "green",
    "already": "dim",
    "failed": "red",
    "reverted": "red",
    "skipped": "dim",
    "held": "yellow",
}
_NAMED = 3
"""Hosts named when somebody asks to stop; more are counted."""
_WORDS = {
    "done": "done in",
    "already": "already as wanted, checked in",
    "failed": "failed after",
    "reverted": "failed and was undone after",
}


def change_end(event: ChangeFinished) -> str:
    """`weights: done in 35 s`, with what went wrong where something did."""
    if event.status in ("skipped", "held"):
        told = f"{event.subject}: {event.status}"
    else:
        told = f"{event.subject}: {_WORDS[event.status]} {duration(event.seconds)}"
    return f"{told}: {event.text}" if event.text else told


def host_end(event: HostFinished) -> str:
    """`done in 48 s`, or how else the host ended."""
    return f"host {event.status} after {duration(event.seconds)}"


def about(event: Note | OperationStarted, board: Board) -> str:
    """`weights: `, or nothing for what is said of the whole host."""
    return f"{board.subject(event.host, event.change)}: " if event.change else ""


def stop_asked(event: StopAsked, board: Board) -> str:
    """What happens now that somebody asked to stop: what is finished, what ends at once, what is undone."""
    if event.now:
        return "stopping now: connections are closed; the next apply puts right what is in the middle"
    busy = [host for host in board.hosts.values() if host.active]
    finishing = [f"{host.operation} on {host.host}" for host in busy if not host.may_be_cut]
    ending = [f"{host.operation} on {host.host}" for host in busy if host.may_be_cut]
    told = [f"finishing: {_some(finishing)}"] if finishing else []
    told += [f"ending: {_some(ending)}"] if ending else []
    told.append("no other change is begun, one in the middle is undone; once more to stop now")
    return "interrupted; " + "; ".join(told)


def _some(texts: list[str]) -> str:
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and on {count(more, 'more host')}" if more > 0 else "")
