"""What failed its gate is written down on the host, so that nobody brings it down with the same thing again.

In: the operation, with what failed and why. Out: `<deployment>/held/<container>.json`, a `types.safety.Hold`.
"""

from __future__ import annotations

from ..errors import OperationFailed
from ..secrets import Secrets
from ..transport.base import Connection
from ..types.base import to_json
from ..types.names import STATE_DIR
from ..types.operation import HoldBack
from ..types.safety import Hold
from .deadline import Due
from .marks import secret_marks

_NOW = "date -u +%Y-%m-%dT%H:%M:%SZ"
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


def lift(connection: Connection, deployment: str, container: str, due: Due) -> None:
    """Take a hold away; none is done. Raises OperationFailed where it can't be."""
    path = _path(deployment, container)
    done = connection.run(_LIFT, args={"path": path}, deadline_s=due.wait_s())
    if done.rc != 0:
        raise OperationFailed(
            f"the hold {path} can't be removed: {done.stderr.strip()}", do="remove it yourself"
        )


def _path(deployment: str, container: str) -> str:
    return f"{STATE_DIR}/{deployment}/held/{container}.json"
