"""What the ways of fetching a weights file share: the script's words and codes, and where a token may go.

In: what the script on the host tells, line by line. Out: `Ended`. Never shows a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Protocol
from urllib.parse import urlsplit

from ..secrets import Secrets, login
from ..transport.base import ByteStream, Completed, OnLine
from ..types.names import STATE_DIR
from ..types.operation import Fetch
from ..types.resolved import WeightFile

MISSING, NO_SPACE, WRONG, BUSY, FAILED, OLD_CURL, NO_RESUME, TOO_LONG = range(10, 18)
"""How the script ends, as it says itself at its top."""
PATIENCE_S = 15
"""Seconds to wait for a download of the same file that goes on elsewhere."""
_GRACE_S = 30
"""Seconds beyond a source's stall limit after which the host gives up by itself."""


class Shell(Protocol):
    """A host where scripts run as root: a `Connection`, or a shell of this machine."""

    def run(
        self,
        script: str,
        *,
        args: Mapping[str, str],
        deadline_s: float,
        stdin: bytes,
        on_line: OnLine,
    ) -> Completed: ...

    def stream(
        self, script: str, *, args: Mapping[str, str], deadline_s: float, failure: str
    ) -> ByteStream: ...


@dataclass
class Ended:
    """How one attempt ended. `have`: bytes on the host. `status`: what the source answered instead."""

    have: int
    code: int = FAILED
    space: tuple[int, int] = (0, 0)
    error: str = ""
    status: int | None = None
    stalled: bool = False

    def line(self, line: str) -> str:
        """Take a line of the script; gives its first word."""
        word, _, rest = line.partition(" ")
        if word == "have":
            self.have = int(rest)
        elif word == "space":
            needed, available = rest.split()
            self.space = (int(needed), int(available))
        elif word == "error":
            self.error = rest.strip()
        elif word == "end":
            self.code = int(rest)
        return word


Attempt = Callable[[str, int, float, Callable[[int], None]], Ended]
"""(URL, bytes the host has, seconds left, told the bytes it has) → how it ended."""


def script(way: str) -> str:
    """The text for one way, `fetch` or `receive`."""
    folder = resources.files(__package__) / "scripts"
    return "".join((folder / f"{name}.sh").read_text(encoding="utf-8") for name in ("weights", way))


def arguments(operation: Fetch, *, patience_s: int = PATIENCE_S) -> dict[str, str]:
    """What the scripts are told."""
    return {
        "dir": operation.weights_dir,
        "sha": operation.file.sha256,
        "size": str(operation.file.size),
        "state": STATE_DIR,
        "patience": str(patience_s),
        "stall": str(operation.stall_s + _GRACE_S),
    }


def login_for(file: WeightFile, url: str, secrets: Secrets) -> dict[str, str]:
    """The headers that carry the token to `url`, none where it does not belong: same scheme and host as
    `token_for`, and below its path."""
    if file.token is None or not file.token_for:
        return {}
    mine, theirs = urlsplit(file.token_for), urlsplit(url)
    if (mine.scheme, mine.netloc) != (theirs.scheme, theirs.netloc) or not theirs.path.startswith(mine.path):
        return {}
    return login(secrets.token(file.token), file.token_cookie)


def place_of(url: str) -> str:
    """A URL's host and port; of a path, this machine."""
    return urlsplit(url).netloc.rpartition("@")[2] or "this machine"
