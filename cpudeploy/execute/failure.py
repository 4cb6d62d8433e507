"""Exceptions in, `Failure` out: what happened, the cause if known, what to do. Never shows a traceback."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..errors import CpudeployError, GateFailed, OperationFailed
from ..types.outcome import Failure
from ..types.release import Diagnosis
from .cause import cut, plain, root_cause

_EXIT_CODES = {
    132: "illegal instruction: the image was built for a newer CPU than this host has",
    137: "killed from outside (memory, or a stop that ran out of time)",
    139: "segmentation fault",
}
_ABORTED = 134
_NAMED = re.compile(r"\{(\w+)\}")
_NOT_STARTED = {
    126: "the image's entrypoint can't be executed",
    127: "the image's entrypoint, or a library that it needs, was not found",
}
"""Exit codes of a loader or shell, which mostly has said which file it missed."""


class ScriptFailed(OperationFailed):
    """An operation failed and left lines that tell why."""

    def __init__(self, what: str, *, do: str = "", log: Sequence[str] = ()) -> None:
        super().__init__(what, do=do)
        self.failure = Failure(what=what, do=do, cause=explain(None, False, log), log=tuple(log))


class ModelNotServing(GateFailed):
    """A health gate's verdict with everything seen of the container."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what, do=failure.do)
        self.failure = failure


class GateDisturbed(OperationFailed):
    """A gate came to no verdict: somebody took the container or the engine away, which is not its fault."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what, do=failure.do)
        self.failure = failure


def explain(exit_code: int | None, oom: bool, log: Sequence[str]) -> str:
    """The likely cause: what the exit says by itself, else the first real error of the log."""
    if oom:
        return "out of memory: the container's limit was reached"
    said = root_cause(log)
    if exit_code == _ABORTED:
        return f"the engine aborted: {said}" if said else "the engine aborted"
    if exit_code in _EXIT_CODES:
        return _EXIT_CODES[exit_code]
    return said or _NOT_STARTED.get(exit_code or 0, "")


def diagnose(
    rules: Sequence[Diagnosis], exit_code: int | None, oom: bool, log: Sequence[str]
) -> tuple[str, str]:
    """Cause and what to do: the first of the playbook's rules that fits, else `explain` and nothing to do.

    What the named groups of a rule's pattern matched stands for `{name}` in its words.
    """
    lines = [plain(line) for line in log]
    for rule in rules:
        if rule.exit_code is not None and rule.exit_code != exit_code:
            continue
        if rule.oom is not None and rule.oom != oom:
            continue
        if rule.log is None:
            return rule.cause, rule.do
        found = next(filter(None, (re.search(rule.log, line) for line in lines)), None)
        if found is not None:
            return _filled(rule.cause, found), _filled(rule.do, found)
    return explain(exit_code, oom, log), ""


def _filled(words: str, found: re.Match[str]) -> str:
    values = found.groupdict(default="")
    # All in one go: what a log says is no pattern for what follows.
    return _NAMED.sub(lambda name: cut(values.get(name[1], name[0])), words)


def failure_of(error: Exception) -> Failure:
    """What a change's outcome says about `error`."""
    if isinstance(error, ScriptFailed | ModelNotServing | GateDisturbed):
        return error.failure
    if isinstance(error, CpudeployError):
        where = f"{error.where}: " if error.where else ""
        return Failure(what=where + error.what, do=error.do)
    # Neither message nor traceback: either may carry what was in a request, secrets included.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return Failure(
        what=f"internal error: {type(error).__name__} at {place}", do="report this as a bug of cpudeploy"
    )
