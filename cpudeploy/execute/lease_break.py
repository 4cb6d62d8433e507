"""Seeing who holds a host's lease, and taking it away from whoever no longer works there.

In: a connection, not fenced. What is broken is the lease that was seen and no other: one that was given back
and taken again meanwhile stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import OperationFailed
from ..transport.base import Connection
from ..types.names import STATE_DIR
from ..types.safety import Lease as Told
from .lease import about_from, script

_DEADLINE_S = 60


@dataclass(frozen=True)
class Seen:
    """A lease as found. `token` names it; `damaged`: the folder is there and names nobody."""

    token: str
    lease: Told
    damaged: bool = False


def see_lease(connection: Connection, *, state: str = STATE_DIR, proc: str = "/proc") -> Seen | None:
    """The lease of a host; None: nobody holds it."""
    said = _asked(connection, state, proc, "")
    if not said:
        return None
    words = said.split(" ", 4)
    if len(words) != 5 or words[1] not in ("0", "1"):
        nobody = Told(
            holder="nobody", command="", deployment="", plan="", since_s=0, silent_s=0, expired=True
        )
        return Seen("damaged", nobody, damaged=True)
    token, expired, since, silent, line = words
    about = about_from(line)
    lease = Told(
        holder=about.holder,
        command=about.command,
        deployment=about.deployment,
        plan=about.plan,
        since_s=max(0, int(since)),
        silent_s=max(0, int(silent)),
        expired=expired == "1",
    )
    return Seen(token, lease)


def break_lease(connection: Connection, seen: Seen, *, state: str = STATE_DIR, proc: str = "/proc") -> bool:
    """Take it away. False: it was given back before, or is another's now."""
    return _asked(connection, state, proc, seen.token) != "gone"


def _asked(connection: Connection, state: str, proc: str, token: str) -> str:
    done = connection.run(
        script("lease", "unlock"),
        args={"state": state, "proc": proc, "break": token},
        deadline_s=_DEADLINE_S,
    )
    if done.rc != 0:
        verb = "broken" if token else "looked at"
        raise OperationFailed(
            f"the lease can't be {verb}: {done.stderr.strip()}",
            where=connection.host.name,
            do="see whether the disk there is full or read-only",
        )
    return done.stdout.decode(errors="replace").strip()
