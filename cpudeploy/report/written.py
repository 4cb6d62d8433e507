"""The documents that programs read: what `--format json` prints and `plan -o` writes, beyond the plain types.

Types in, JSON data out. What stands in a document is a type here, so that its schema tells all of it.
"""

from __future__ import annotations

from typing import Any

from ..errors import CpudeployError, ManifestError
from ..types.base import Struct, to_data
from ..types.outcome import HostOutcome, Outcome
from ..types.plan import Plan
from .endpoints import Endpoint


class PlanDocument(Plan, frozen=True, kw_only=True):
    """A plan as it is printed and kept in files.

    `id`: sha256 of the canonical JSON of everything else. Another one means that the document was edited.
    """

    id: str


class HostResult(HostOutcome, frozen=True, kw_only=True):
    """A host's end. `exit_code`: what the command would exit with if it were the only host."""

    exit_code: int


class Result(Outcome, frozen=True, kw_only=True):
    """The end of an apply, rollback, prune or destroy as it is printed: the last line of `--format json`.

    `exit_code`: of the command. `endpoints`: where models answer now. `left_out`: host → model → why what is
    wanted was not even planned (the host itself under the empty name).
    """

    hosts: dict[str, HostResult]  # type: ignore[assignment]
    exit_code: int
    endpoints: tuple[Endpoint, ...] = ()
    left_out: dict[str, dict[str, str]] = {}  # noqa: RUF012 (msgspec copies it)


class ErrorProblem(Struct, frozen=True, kw_only=True):
    """One thing wrong in a file; `where` is file:line:column."""

    where: str
    what: str
    do: str = ""


class ErrorDetail(Struct, frozen=True, kw_only=True):
    """Why a command did nothing: where, what is wrong, what to do (empty: nothing worth saying).

    `problems`: one by one where a file has several.
    """

    where: str
    what: str
    do: str
    exit_code: int
    problems: tuple[ErrorProblem, ...] = ()


class ErrorDocument(Struct, frozen=True, kw_only=True):
    """What `--format json` prints instead of its document when the whole command failed."""

    error: ErrorDetail


def plan_data(plan: Plan) -> dict[str, Any]:
    """A plan's document, what it is and its id first."""
    data: dict[str, Any] = to_data(plan)
    return {"schema": data.pop("schema"), "id": plan.id, **data}


def error_data(error: CpudeployError) -> dict[str, Any]:
    """An error's document."""
    problems: tuple[ErrorProblem, ...] = ()
    if isinstance(error, ManifestError):
        problems = tuple(ErrorProblem(where=p.where, what=p.what, do=p.do) for p in error.problems)
    detail = ErrorDetail(
        where=error.where, what=error.what, do=error.do, exit_code=error.code, problems=problems
    )
    data: dict[str, Any] = to_data(ErrorDocument(error=detail))
    return data
