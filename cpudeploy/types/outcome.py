"""What came of it: one result a change, one status a host, one exit code. Rendered last, by `report/`."""

from __future__ import annotations

from typing import Literal

from .base import Struct

ChangeStatus = Literal["done", "already", "failed", "reverted", "skipped", "held"]
HostStatus = Literal[
    "done", "unchanged", "failed", "reverted", "held", "unreachable", "stale", "used", "locked", "interrupted"
]

EXIT_CODES: dict[str, int] = {
    "done": 0,
    "unchanged": 0,
    "failed": 3,
    "reverted": 7,
    "held": 1,
    "unreachable": 4,
    "stale": 6,
    "used": 0,
    "locked": 5,
    "interrupted": 130,
}


class Failure(Struct, frozen=True, kw_only=True):
    """Why a change failed, told so that one can act: what happened, the cause if known, what to do.

    `log`: last lines. exit_code, oom, restarts: of the container, where one was started.
    `serving`: what answers now, e.g. `the old version serves again`.
    """

    what: str
    cause: str = ""
    do: str = ""
    log: tuple[str, ...] = ()
    exit_code: int | None = None
    oom: bool = False
    restarts: int = 0
    serving: str = ""


class ChangeOutcome(Struct, frozen=True, kw_only=True):
    change: str
    subject: str
    status: ChangeStatus
    seconds: float
    failure: Failure | None = None


class HostOutcome(Struct, frozen=True, kw_only=True):
    """A host's end. `error` speaks where no single change failed (unreachable, stale)."""

    host: str
    status: HostStatus
    changes: tuple[ChangeOutcome, ...] = ()
    error: str = ""
    seconds: float = 0.0


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of one apply, host by host. `plan` is the id of the plan that was applied; `warnings` what
    belongs to no host and changed nothing there.
    """

    schema: Literal["cpudeploy.outcome/1"] = "cpudeploy.outcome/1"
    deployment: str
    plan: str
    hosts: dict[str, HostOutcome]
    warnings: tuple[str, ...] = ()
    seconds: float
