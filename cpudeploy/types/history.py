"""What was applied to a host, release by release: made from facts, told by `history`."""

from __future__ import annotations

from typing import Literal

from .base import Struct
from .plan import FieldDiff

Became = Literal["serving", "down", "kept", "failed", "proven", "unproven", ""]


class HistoryInstance(Struct, frozen=True, kw_only=True):
    """One model in a release, against the release before.

    `change`: new, changed (`diff` says how), same, or removed since. `became`: serving (a container of this
    very release does), down (it does not run now), kept (stands by while another takes its place), failed
    (`why`: what its gate said), proven once, unproven; empty where nobody noted it.
    """

    model: str
    container: str
    change: Literal["new", "changed", "same", "removed"]
    diff: tuple[FieldDiff, ...] = ()
    became: Became = ""
    why: str = ""


class HistoryRelease(Struct, frozen=True, kw_only=True):
    """One release of a host. `age_s`: seconds ago, by the host's own clock; None where it tells no time.

    `missing`: what it would need to serve again and is not on the host any more; empty: `rollback` can go
    there. `unreadable`: why nothing more is known of it.
    """

    host: str
    release: str
    created: str = ""
    age_s: int | None = None
    by: str = ""
    origin: str = ""
    current: bool = False
    """What the host was brought to last, as far as it serves."""
    instances: tuple[HistoryInstance, ...] = ()
    missing: tuple[str, ...] = ()
    unreadable: str = ""


class HostHistory(Struct, frozen=True, kw_only=True):
    """A host's releases, newest first; or why there are none."""

    host: str
    releases: tuple[HistoryRelease, ...] = ()
    unreachable: str = ""
    unknown: str = ""
