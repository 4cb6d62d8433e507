"""What happens while a plan is carried out, as it happens. `execute/` emits, `report/` shows.

Every event names its host; `change` and `operation` are ids of the plan. Never a secret's value.
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
    """`text`: what it does, for people."""

    host: str
    change: str
    operation: str
    text: str


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


Event = HostStarted | ChangeStarted | OperationStarted | Progress | Note | ChangeFinished | HostFinished
