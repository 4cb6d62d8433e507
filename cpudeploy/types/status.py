"""How a deployment stands right now: one row an instance. Built from facts, rendered by `report/`."""

from __future__ import annotations

from typing import Literal

from .base import Struct

State = Literal[
    "serving",
    "starting",
    "restarting",
    "paused",
    "stopped",
    "missing",
    "drifted",
    "unlisted",
    "unreachable",
    "unknown",
]


class StatusRow(Struct, frozen=True, kw_only=True):
    """One instance of a model on one host, or a host of which nothing is known (model empty). `unlisted`: it
    runs, and the manifest does not name it any more.

    exit_code: of a stopped container. since: RFC 3339 time the state began, empty where unknown; age_s:
    seconds since then by the host's own clock. memory: the container's limit in bytes (0: none). cpus:
    kernel cpu list. endpoint: base URL (`http://127.0.0.1:8100/v1`) or empty. detail: one clause, such
    as which fields drifted or why a host did not answer.
    """

    host: str
    model: str = ""
    instance: int = 0
    state: State
    detail: str = ""
    exit_code: int | None = None
    oom: bool = False
    since: str = ""
    age_s: int | None = None
    restarts: int = 0
    endpoint: str = ""
    release: str = ""
    memory: int = 0
    cpus: str = ""
