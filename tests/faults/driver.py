"""The real command line in a process that breaks at an exact place: `python -m tests.faults.driver SETTINGS WORDS…`.

SETTINGS is JSON. `trace`: a file that gets a line for every step a host's target is asked for, before it is
done. `kill_before`: the step, by its name or counted from 0, before which this process kills itself.
`kill_after_s`: how long after the first step it does. `hold_before`: the step before which it waits for a
line on stdin.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from cpudeploy.__main__ import main
from cpudeploy.execute.describe import describe
from cpudeploy.execute.target import HostTarget
from cpudeploy.types.names import STATE_DIR

_RELEASE = re.compile(r"[ /]\d{4}-[0-9a-f]{8}\b")
STEPS = ("lock", "settle", "begin", "perform", "end", "finish", "unlock", "close")


def die() -> NoReturn:
    """As `kill -9` does: no handler, no farewell."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process went on")


def name_of(step: str, arguments: tuple[Any, ...]) -> str:
    """What a step is called: an operation by what it does, a change's begin and end by what is changed."""
    if step == "perform":
        return _RELEASE.sub("", describe(arguments[0]).replace(f"{STATE_DIR}/", ""))
    if step in ("begin", "end"):
        return f"{step} {arguments[0].subject}"
    return step


class Breaking:
    """Counts steps, tells them, and breaks where it was told to."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._trace = Path(settings["trace"]).open("a", buffering=1)  # noqa: SIM115 (lives as long as we)
        self._kill_before = settings.get("kill_before")
        self._hold_before = settings.get("hold_before")
        self._kill_after_s = settings.get("kill_after_s")
        self._count = 0

    def wrap(self, step: str) -> None:
        """Have a method of the target pass here first."""
        method: Callable[..., Any] = getattr(HostTarget, step)

        def broken(target: HostTarget, *arguments: Any, **named: Any) -> Any:
            self._before(name_of(step, arguments))
            return method(target, *arguments, **named)

        setattr(HostTarget, step, broken)

    def _before(self, name: str) -> None:
        if self._kill_before in (self._count, name):
            die()
        if self._count == 0 and self._kill_after_s is not None:
            threading.Timer(self._kill_after_s, die).start()
        print(json.dumps({"step": self._count, "name": name, "at": time.monotonic()}), file=self._trace)
        if self._hold_before in (self._count, name):
            self._hold_before = None
            sys.stdin.readline()
        self._count += 1


if __name__ == "__main__":
    breaking = Breaking(json.loads(sys.argv.pop(1)))
    for each in STEPS:
        breaking.wrap(each)
    main()
