"""Exceptions in, `Failure` out: what happened, the cause if known, what to do. Never shows a traceback."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..errors import CpudeployError, GateFailed, OperationFailed
from ..types.outcome import Failure
from ..types.release import Diagnosis

_EXIT_CODES = {
    132: "illegal instruction: the image was built for a newer CPU than this host has",
    134: "the engine aborted",
    137: "killed from outside (memory, or a stop that ran out of time)",
    139: "segmentation fault",
}
_NOT_STARTED = {
    126: "the image's entrypoint can't be executed",
    127: "the image's entrypoint, or a library that it needs, was not found",
}
"""Exit codes of a loader or shell, which mostly has said which file it missed."""
_ERROR_LINE = re.compile(
    r"\b(error|fatal|failed|exception|invalid|cannot|can't|couldn't|unable|not found|insufficient)\b"
    r"|Error\b|Exception\b|Killed|\sE\s",
    re.IGNORECASE,
)


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
    """The likely cause: what the exit says by itself, else the first line that looks like an error.

    The first and not the last, because engines end every failure with the same closing line.
    """
    if oom:
        return "out of memory: the container's limit was reached"
    if exit_code in _EXIT_CODES:
        return _EXIT_CODES[exit_code]
    said = next((line.strip() for line in log if _ERROR_LINE.search(line)), "")
    return said or _NOT_STARTED.get(exit_code or 0, "")


def diagnose(
    rules: Sequence[Diagnosis], exit_code: int | None, oom: bool, log: Sequence[str]
) -> tuple[str, str]:
    """Cause and what to do: the first of the playbook's rules that fits, else `explain` and nothing to do."""
    for rule in rules:
        fits_exit = rule.exit_code is None or rule.exit_code == exit_code
        fits_oom = rule.oom is None or rule.oom == oom
        fits_log = rule.log is None or any(re.search(rule.log, line) for line in log)
        if fits_exit and fits_oom and fits_log:
            return rule.cause, rule.do
    return explain(exit_code, oom, log), ""


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
