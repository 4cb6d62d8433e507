"""Guards on a real host: armed, taken back, brought home. Each is a script; what it says becomes words.

In: a connection (fenced: whoever arms a guard holds the lease) and an operation. What a guard is on the host
is told in `scripts/guard.sh`.
"""

from __future__ import annotations

import re
import secrets as random

from ..errors import OperationFailed
from ..transport.base import Connection
from ..transport.scripts import SEE_DISK
from ..transport.shell import assignments
from ..types.base import to_json
from ..types.names import STATE_DIR
from ..types.operation import GuardArm, GuardCommit
from .lease import Lease, script

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_PUT_BACK_S = 300
"""Seconds that bringing one home may take, beyond what is asked for."""


def arm_guard(
    connection: Connection,
    operation: GuardArm,
    lease: Lease,
    change: str,
    *,
    state: str = STATE_DIR,
    proc: str = "/proc",
) -> None:
    """Write it down and have it watched. Raises OperationFailed where that can't be done."""
    if not _NAME.match(operation.guard):
        raise OperationFailed(f"a guard can't be called {operation.guard!r}", do="plan again")
    generation = random.token_hex(8)
    places = {"state": state, "proc": proc}
    folder = f"{state}/guard/{operation.guard}"
    watcher = (
        assignments({**places, "folder": folder, "generation": generation})
        + script("lease", "guard")
        + 'life\nwatch "$folder" "$generation"\n'
    )
    revert = assignments(operation.revert.args) + operation.revert.text
    about = {"deployment": lease.about.deployment, "plan": lease.about.plan, "change": change}
    done = connection.run(
        script("lease", "guard", "guard-arm"),
        args={
            **places,
            "token": lease.token,
            "name": operation.guard,
            "generation": generation,
            "after_s": str(operation.after_s),
            "deadline_s": str(operation.revert.deadline_s),
            "about": to_json(about).decode(),
            "revert": revert,
            "watcher": watcher,
        },
        deadline_s=operation.deadline_s,
    )
    if done.rc != 0:
        raise OperationFailed(
            f"guard {operation.guard} could not be armed: {done.stderr.strip()}", do=SEE_DISK
        )


def commit_guard(
    connection: Connection,
    operation: GuardCommit,
    *,
    state: str = STATE_DIR,
    proc: str = "/proc",
) -> None:
    """Take it back; where it fired, wait until what it put back is back. Raises OperationFailed then,
    unless `lenient`."""
    done = connection.run(
        script("lease", "guard", "guard-commit"),
        args={"state": state, "proc": proc, "name": operation.guard},
        deadline_s=operation.deadline_s + _PUT_BACK_S,
    )
    word, _, rc = done.stdout.decode(errors="replace").strip().partition(" ")
    if done.rc != 0 or word not in ("committed", "absent", "fired"):
        raise OperationFailed(f"guard {operation.guard} could not be taken back: {done.stderr.strip()}")
    if word == "committed" or operation.lenient:
        return
    if word == "absent":
        raise OperationFailed(f"guard {operation.guard} is not armed", do="apply again")
    ended = "" if rc == "0" else f", which ended with exit code {rc or 'unknown'}"
    raise OperationFailed(
        f"guard {operation.guard} put back what it guards{ended}: it was not renewed in time",
        do="apply again",
    )


def settle_guards(
    connection: Connection,
    *,
    state: str = STATE_DIR,
    proc: str = "/proc",
) -> dict[str, str]:
    """Bring home what an earlier apply left armed, and forget what was in flight.

    Gives name → the exit code of what put it back.
    """
    done = connection.run(
        script("lease", "guard", "guard-settle"),
        args={"state": state, "proc": proc},
        deadline_s=2 * _PUT_BACK_S,
    )
    if done.rc != 0:
        raise OperationFailed(
            f"what an earlier apply left could not be settled: {done.stderr.strip()}", do=SEE_DISK
        )
    lines = done.stdout.decode(errors="replace").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)
