"""Waits for a moment in which a container answers nobody. A `Drain` in, nothing out: at the deadline, or
where nobody can tell, the change goes on all the same.

An answer to the busy check tells. One that does not come is no sign of quiet: an engine in the middle of a
long prompt answers nothing. Only a lost host or lease is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..errors import ConnectError, CpudeployError, Locked
from ..transport.wire import Deadline
from ..types.operation import Drain
from .ask import Asker, Dial, Unreachable
from .check import differs
from .engine import EngineClient

_POLL_S = 0.2
_ANSWER_S = 5.0
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 (an address to recognise, not to bind)


def drain(
    engine: EngineClient,
    dial: Dial,
    operation: Drain,
    key: str | None,
    alive: Callable[[str], None],
    note: Callable[[str], None],
) -> None:
    """Return at the first quiet moment. `alive` is told what is waited for, `note` why nothing is."""
    try:
        _wait(engine, dial, operation, key, alive, note)
    except (ConnectError, Locked):
        raise
    except CpudeployError as error:
        note(f"whether {operation.container} is at work can't be told: {error.what}")


def _wait(
    engine: EngineClient,
    dial: Dial,
    operation: Drain,
    key: str | None,
    alive: Callable[[str], None],
    note: Callable[[str], None],
) -> None:
    busy, found = operation.busy, engine.container(operation.container)
    if busy is None or found is None or not found["State"]["Running"]:
        return
    deadline = Deadline(operation.deadline_s)
    host = "127.0.0.1" if operation.address in _EVERYWHERE else operation.address
    inside = _inside(found, operation.port)
    asker = Asker(engine, dial, operation.container, (host, operation.port), inside, key)
    try:
        while not deadline.past:
            left = max(0.1, deadline.left() or 0.0)
            try:
                answer = asker.ask(busy, min(_ANSWER_S, left))
            except Unreachable as error:
                alive(str(error))
            else:
                if answer.status != busy.status:
                    note(f"whether {operation.container} is at work can't be told: HTTP {answer.status}")
                    return
                if differs(busy, answer.status, answer.body):
                    return
                alive("at work")
            time.sleep(min(_POLL_S, max(0.0, deadline.left() or 0.0)))
    finally:
        asker.close()
    note(f"{operation.container} is still at work after {operation.deadline_s} s: its requests are cut")


def _inside(inspected: dict[str, Any], port: int) -> int:
    """The container's own port that is published at `port`."""
    for inner, bindings in (inspected["HostConfig"].get("PortBindings") or {}).items():
        if any(binding.get("HostPort") == str(port) for binding in bindings or ()):
            return int(inner.partition("/")[0])
    return port
