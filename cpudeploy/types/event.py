"""What happens while a plan is carried out, as it happens. `execute/` emits, `report/` shows.

Every event but the wish to stop names its host; `change` and `operation` are ids of the plan. Never a
secret's value.
"""

from __future__ import annotations

from typing import Literal

from .base import Struct


class HostStarted(Struct, frozen=True, kw_only=True, tag="host_started", tag_field="event"):
    host: str


class ChangeStarted(Struct, frozen=True, kw_only=True, tag="change_started", tag_field="event"):
    host: str
    change: str
    subject: str


class OperationStarted(Struct, frozen=True, kw_only=True, tag="operation_started", tag_field="event"):
    """`text`: what it does, for people. `at_most_s`: how long it waits for something that happens by itself
    (0: it doesn't). `may_be_cut`: asked to stop, it ends at its next sign of life; any other is finished.
    """

    host: str
    change: str
    operation: str
    text: str
    at_most_s: int = 0
    may_be_cut: bool = False


class Progress(Struct, frozen=True, kw_only=True, tag="progress", tag_field="event"):
    """Bytes done of total (0: unknown), or with `text` alone a sign of life (the last log line)."""

    host: str
    change: str
    operation: str
    done: int = 0
    total: int = 0
    text: str = ""


class Note(Struct, frozen=True, kw_only=True, tag="note", tag_field="event"):
    """Something people should see: a warning of the engine, a retry, a source that failed."""

    host: str
    change: str
    text: str
    level: Literal["info", "warning"] = "info"


class ChangeFinished(Struct, frozen=True, kw_only=True, tag="change_finished", tag_field="event"):
    host: str
    change: str
    subject: str
    status: Literal["done", "already", "failed", "reverted", "skipped", "held"]
    seconds: float
    text: str = ""


class HostFinished(Struct, frozen=True, kw_only=True, tag="host_finished", tag_field="event"):
    host: str
    status: str
    seconds: float


class StopAsked(Struct, frozen=True, kw_only=True, tag="stop_asked", tag_field="event"):
    """Somebody asked to stop: after what is being done, or `now`, which closes connections. Of no host."""

    now: bool = False


Event = (
    HostStarted
    | ChangeStarted
    | OperationStarted
    | Progress
    | Note
    | ChangeFinished
    | HostFinished
    | StopAsked
)
