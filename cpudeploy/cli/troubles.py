"""What went wrong on single hosts while others went on: told in a line each, and one exit code.

In: errors by host. Out: lines on stderr, so that stdout holds only what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ERROR, UNREACHABLE, ConnectError, CpudeployError
from .terminal import stderr


def code_of(error: CpudeployError) -> int:
    """The exit code of a command that could not ask a host: 4 where it was not reached, else 1."""
    return UNREACHABLE if isinstance(error, ConnectError) else ERROR


def tell(troubles: Mapping[str, CpudeployError]) -> None:
    """A line a host on stderr."""
    console = stderr()
    for host, error in troubles.items():
        word = "unreachable" if isinstance(error, ConnectError) else "error"
        console.try_write(f"{host}: {word}: {error.sentence}")


def note(host: str, text: str) -> None:
    """A line on stderr about a host with which nothing is wrong."""
    stderr().try_write(f"{host}: note: {text}")
