"""The doors of this room: what a connection to a host can do, whatever carries it.

Comes in: scripts, file contents, addresses. Goes out: results and byte streams. Nothing here knows
SSH or sudo; callers know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from ..types.deployment import Host

Root = Literal["root", "sudo", "sudo-password", "none"]
"""How root is had: logged in as root, sudo without and with a password, or not at all."""


class ByteStream(Protocol):
    """A two-way channel: a connection of the engine, a forwarded port, a script that speaks bytes.

    One reader and one writer. Timeouts are seconds of silence; None waits for ever.
    """

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """Up to `size` bytes, b"" at the end. Raises TimeoutError, ConnectionLost, or what the far
        end said if it ended without a byte (OperationFailed)."""

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """All of `data`. Raises TimeoutError, ConnectionLost."""

    def readable(self) -> bool:
        """Whether `read` would return at once: bytes are waiting, or the end."""

    def close(self) -> None:
        """End both directions. Safe to call twice."""


@dataclass(frozen=True)
class Completed:
    """A script that ended. stderr has undecodable bytes replaced."""

    rc: int
    stdout: bytes
    stderr: str


OnLine = Callable[[str], None]


class Connection(Protocol):
    """One host, reached. Methods may be called from several threads; each uses a channel of its own."""

    @property
    def host(self) -> Host: ...

    @property
    def root(self) -> Root:
        """How root is had; asks the host the first time. Raises SudoError when it is refused."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know about how the host was reached."""

    def run(
        self,
        script: str,
        *,
        args: Mapping[str, str] | None = None,
        root: bool = True,
        deadline_s: float,
        stdin: bytes = b"",
        on_line: OnLine | None = None,
    ) -> Completed:
        """Run a POSIX sh script in `/` with LC_ALL=C, umask 077 and a plain PATH.

        `args` become quoted assignments before its text. It reads exactly `stdin`. `on_line` is told
        each line of stdout as it comes. A script that fails is a result, not an error. Raises
        SudoError, ConnectionLost, OperationFailed at the deadline (the script is then ended).
        """

    def stream(
        self,
        script: str,
        *,
        args: Mapping[str, str] | None = None,
        root: bool = True,
        deadline_s: float,
        failure: str = "",
    ) -> ByteStream:
        """Start a script whose stdin and stdout are the stream. `deadline_s` is for starting only.
        `failure` begins the error if the script ends without a byte."""

    def put(self, path: str, data: bytes, *, mode: str, owner: str = "root", deadline_s: float) -> None:
        """Write a small file as root: aside, with its mode and owner, then moved into place."""

    def dial_engine(self) -> ByteStream:
        """A new connection to the container engine's API, as root."""

    def dial_tcp(self, address: str, port: int) -> ByteStream:
        """A TCP connection from the host to `address:port`."""

    def close(self) -> None:
        """End everything. Safe to call twice."""
