"""An error for people: where, what is wrong, what to do. A CpudeployError in, text out; never a traceback.

Not wrapped: `file:line:column: …` stays on one line, as editors and pipelines read it.
"""

from __future__ import annotations

from ..errors import CpudeployError, ManifestError, Problem
from ..types.words import count
from .text import Ink, clean, lines_of


def render_error(error: CpudeployError, colour: bool) -> str:
    """The error in two or three lines; a ManifestError lists every problem, then how many."""
    ink = Ink(colour)
    if not isinstance(error, ManifestError):
        return "\n".join(_problem(Problem(error.where, error.what, error.do), ink, sign="✗ "))
    lines = [line for problem in error.problems for line in _problem(problem, ink)]
    return "\n".join([*lines, ink(count(len(error.problems), "problem"), "bold")])


def _problem(problem: Problem, ink: Ink, sign: str = "") -> list[str]:
    first, *rest = lines_of(problem.what)
    where = ink(clean(problem.where) + ":", "bold") + " " if problem.where else ""
    lines = [ink(sign, "red") + where + first, *("    " + line for line in rest)]
    if problem.do:
        first, *rest = lines_of(problem.do)
        lines += ["  " + ink("do", "cyan") + "  " + first, *("      " + line for line in rest)]
    return lines
