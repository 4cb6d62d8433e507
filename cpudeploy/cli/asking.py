"""The question before something is taken away. In: what it is about. Out: nothing, or why it is not done."""

from __future__ import annotations

import sys

import click

from ..errors import CpudeployError, UsageError


class Declined(CpudeployError):
    """Somebody said no."""


def agree(question: str, *, command: str) -> None:
    """Raises UsageError where nobody can be asked, Declined for a no; an answer that never comes is an
    interruption."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"{command} needs --yes where nobody can be asked",
            do=f"see that it is right, then {command} --yes",
        )
    if not click.confirm(question, err=True):
        raise Declined("nothing was changed: you said no")
