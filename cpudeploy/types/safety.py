"""What keeps a host from being left half-done: who holds it, what is under way, what would put it back.

Read by the probe from the state folder; written only by `execute/` and by what it left on the host.
"""

from __future__ import annotations

from typing import Literal

from .base import Count, Struct


class Lease(Struct, frozen=True, kw_only=True):
    """Who may change the host now. Ages by the host's own uptime, never by a wall clock.

    `holder`: for people, `ops@laptop (pid 4711)`. `command`: what it runs (`apply`, `destroy`, …).
    `since_s`: seconds since it was taken; `silent_s`: since it was renewed last. `expired`: anybody may
    take it over: not renewed for its time to live, or taken before the host's last start.
    """

    holder: str
    command: str
    deployment: str
    plan: str
    since_s: Count
    silent_s: Count
    expired: bool


class InFlight(Struct, frozen=True, kw_only=True, tag="in_flight", tag_field="kind"):
    """The change that was under way when its controller was last heard of: the document `inflight.json`.

    `operation`: the last one that was begun, as far as that was heard.
    """

    deployment: str
    plan: str
    change: str
    subject: str
    holder: str
    operation: str = ""


class Guard(Struct, frozen=True, kw_only=True):
    """A way back that waits on the host. armed: it runs in `left_s` seconds unless it is committed or
    renewed; lost: it never will, the host was restarted since; fired: it ran, ended with `rc` and said `log`.
    """

    state: Literal["armed", "lost", "fired"]
    deployment: str
    plan: str
    change: str
    left_s: Count = 0
    rc: int | None = None
    log: str = ""


class Hold(Struct, frozen=True, kw_only=True):
    """A wanted instance that failed its gate, and is left alone until it is another or somebody insists.

    `wanted`: `types.release.identity` of it; `secret_marks`: salted scrypt by secret path, as in a release.
    `at`: RFC 3339, the host's clock. `what`, `cause`, `do`: as the failure was told.
    """

    wanted: str
    release: str
    at: str
    what: str
    cause: str = ""
    do: str = ""
    secret_marks: dict[str, str] = {}
