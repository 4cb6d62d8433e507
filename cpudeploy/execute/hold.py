"""What failed its gate is written down on the host, so that nobody brings it down with the same thing again.

In: the operation, with what failed and why. Out: `<deployment>/held/<container>.json`, a `types.safety.Hold`.
"""

from __future__ import annotations

import msgspec

from ..errors import OperationFailed
from ..secrets import Secrets
from ..transport.base import Connection
from ..types.base import from_json, to_json
from ..types.names import STATE_DIR
from ..types.operation import HoldBack, Prove
from ..types.release import Instance, identity
from ..types.safety import Hold
from .deadline import Due
from .marks import secret_marks

_NOW = "date -u +%Y-%m-%dT%H:%M:%SZ"
_READ = 'cat -- "$path" 2>/dev/null || true'
_LIFT = 'rm -f -- "$path"'


def hold_back(connection: Connection, operation: HoldBack, secrets: Secrets, due: Due) -> None:
    """Hold what was wanted of a container, with the secrets it was tried with."""
    now = connection.run(_NOW, deadline_s=due.wait_s()).stdout.decode().strip()
    hold = Hold(
        wanted=operation.wanted,
        release=operation.release,
        at=now,
        what=operation.what,
        cause=operation.cause,
        do=operation.do,
        secret_marks=secret_marks(operation.secrets, secrets),
    )
    path = _path(operation.deployment, operation.container)
    connection.put(path, to_json(hold) + b"\n", mode="0600", deadline_s=due.wait_s())


def lift(connection: Connection, operation: Prove, proven: Instance | None, due: Due) -> None:
    """Take the hold on what is `proven` now away, never one on something else. Where nobody knows what it is,
    any goes: that is one more try. Raises OperationFailed where it can't be."""
    path = _path(operation.deployment, operation.container)
    found = connection.run(_READ, args={"path": path}, deadline_s=due.wait_s()).stdout
    if not found or (proven is not None and _held(found) not in ("", identity(proven))):
        return
    done = connection.run(_LIFT, args={"path": path}, deadline_s=due.wait_s())
    if done.rc != 0:
        raise OperationFailed(
            f"the hold {path} can't be removed: {done.stderr.strip()}", do="remove it yourself"
        )


def _held(document: bytes) -> str:
    """What is held; empty where the document is damaged."""
    try:
        return from_json(document, Hold).wanted
    except (msgspec.DecodeError, RecursionError):
        return ""


def _path(deployment: str, container: str) -> str:
    return f"{STATE_DIR}/{deployment}/held/{container}.json"
