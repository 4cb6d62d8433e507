"""JSON for machines that is also safe on a terminal: data in, ASCII-only text out."""

from __future__ import annotations

import json
import threading
from types import TracebackType
from typing import Any

from ..types.base import to_data
from ..types.event import Event
from ..types.plan import Plan
from .console import Console
from .written import plan_data


def json_document(value: Any) -> str:
    """One document, indented, keys sorted. Every character beyond printable ASCII is `\\uXXXX`."""
    return _safe(json.dumps(to_data(value), indent=2, sort_keys=True))


def plan_document(plan: Plan) -> str:
    """A plan, indented as `json_document` does, but in its own order: the schema stands first, so that a plan
    is known for one also when its end is missing."""
    return _safe(json.dumps(plan_data(plan), indent=2))


def json_line(value: Any) -> str:
    """The same on one line."""
    return _safe(json.dumps(to_data(value), sort_keys=True, separators=(",", ":")))


def _safe(text: str) -> str:
    return text.replace("\x7f", "\\u007f")


class JsonLines:
    """Consumer of events for `--format json`: one event a line, whole lines only, from any thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def tell(self, event: Event) -> None:
        """Write `event`."""
        line = json_line(event)
        with self._lock:
            self._console.try_write(line)
