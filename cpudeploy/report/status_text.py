"""How a deployment stands, as a table and as data. StatusRows in, text or JSON data out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..types.base import to_data
from ..types.status import StatusRow
from .numbers import duration, memory_size
from .outcome_text import exit_reason
from .table import table
from .text import Cell, Ink

STATUS_SCHEMA = "cpudeploy.status/1"
_STYLES = {"serving": "green", "starting": "yellow", "drifted": "yellow", "unlisted": "yellow"}
_HEADER = (
    "host",
    "model",
    "instance",
    "state",
    "since",
    "restarts",
    "endpoint",
    "release",
    "memory",
    "cpus",
    "detail",
)


def render_status(rows: Sequence[StatusRow], *, colour: bool, width: int) -> str:
    """A table of all rows; columns nobody has anything in are left out. No line end at the end."""
    if not rows:
        return "nothing is deployed"
    ink = Ink(colour)
    numbered = Counter((row.host, row.model) for row in rows)
    cells = [_cells(row, several=numbered[row.host, row.model] > 1) for row in rows]
    right = frozenset({"instance", "restarts", "memory"})
    return "\n".join(table(_HEADER, cells, ink=ink, width=width, right=right))


def status_data(deployment: str, rows: Sequence[StatusRow]) -> dict[str, Any]:
    """The rows as JSON data."""
    return {"schema": STATUS_SCHEMA, "deployment": deployment, "instances": to_data(list(rows))}


def _cells(row: StatusRow, *, several: bool) -> list[Cell]:
    # Restarts of nothing are only worth telling when it runs.
    restarts = str(row.restarts) if row.restarts or row.state in ("serving", "starting", "drifted") else ""
    return [
        Cell(row.host, "bold"),
        Cell(row.model or "–"),
        Cell(str(row.instance) if several else ""),
        Cell(_state(row), _STYLES.get(row.state, "red")),
        Cell(row.since if row.age_s is None else duration(row.age_s)),
        Cell(restarts),
        Cell(row.endpoint),
        Cell(row.release),
        Cell(memory_size(row.memory) if row.memory else ""),
        Cell(row.cpus),
        Cell(row.detail),
    ]


def _state(row: StatusRow) -> str:
    if row.state != "stopped" or row.exit_code is None:
        return row.state
    killed = ", out of memory" if row.oom else ""
    return f"stopped, exit {row.exit_code}{exit_reason(row.exit_code)}{killed}"
