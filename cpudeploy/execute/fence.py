"""A connection through which nothing happens any more once the host's lease is another's.

In: a connection and a lease. Out: the same, fenced: every script looks for the lease before its first line
and is ended within a second of losing it, whether its controller hangs, slept, or was never told. What fails
for that reason is Locked, naming who holds the host now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..errors import ConnectError, CpudeployError, Locked, OperationFailed
from ..transport.base import ByteStream, Completed, Connection, OnLine, Root
from ..transport.scripts import ENGINE, put_file
from ..transport.shell import quote
from ..types.deployment import Host
from .interrupt import Interrupted
from .lease import Lease

_LOST = 113
_START_S = 30.0

# The watch is of the script's process group and ends it as a whole; where the script may tidy up, it is asked
# first. It holds none of our streams, so that nobody waits for it.
_FENCED = """\
test -d {lease} || {{ echo {mark} >&2; exit {lost}; }}
(
while test -d {lease}; do sleep 1; done
trap '' TERM
{ask}kill -KILL 0
) </dev/null >/dev/null 2>&1 &
cpudeploy_watch=$!
(
{script}
)
set -- "$?"
kill "$cpudeploy_watch" 2>/dev/null
exit "$1"
"""
_ASK = "kill -TERM 0\nsleep 1\n"


class Fenced:
    """A Connection. Closing it closes the connection below, not the lease."""

    def __init__(self, connection: Connection, lease: Lease) -> None:
        self._inner = connection
        self._lease = lease

    @property
    def host(self) -> Host:
        return self._inner.host

    @property
    def root(self) -> Root:
        return self._inner.root

    @property
    def notes(self) -> tuple[str, ...]:
        return self._inner.notes

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
        with or_locked(self._lease):
            done = self._inner.run(
                self._fenced(script),
                args=args,
                root=root,
                deadline_s=deadline_s,
                stdin=stdin,
                on_line=on_line,
            )
            if done.rc == _LOST and done.stderr.strip() == self._mark:
                raise OperationFailed("the lease is gone", where=self.host.name)
            return done

    def stream(
        self,
        script: str,
        *,
        args: Mapping[str, str] | None = None,
        root: bool = True,
        deadline_s: float,
        failure: str = "",
    ) -> ByteStream:
        text = self._fenced(script)
        return self._open(text, args=args, root=root, deadline_s=deadline_s, failure=failure)

    def put(self, path: str, data: bytes, *, mode: str, owner: str = "root", deadline_s: float) -> None:
        put_file(self, path, data, mode=mode, owner=owner, deadline_s=deadline_s)

    def dial_engine(self) -> ByteStream:
        # Nothing there has anything to tidy up.
        text = self._fenced(ENGINE, ask=False)
        return self._open(text, deadline_s=_START_S, failure="the container engine can't be reached")

    def dial_tcp(self, address: str, port: int) -> ByteStream:
        return self._inner.dial_tcp(address, port)

    def close(self) -> None:
        self._inner.close()

    @property
    def _mark(self) -> str:
        return f"cpudeploy: lease {self._lease.token} is gone"

    def _fenced(self, script: str, *, ask: bool = True) -> str:
        return _FENCED.format(
            lease=quote(self._lease.folder),
            mark=quote(self._mark),
            lost=_LOST,
            ask=_ASK if ask else "",
            script=script,
        )

    def _open(
        self,
        script: str,
        *,
        args: Mapping[str, str] | None = None,
        root: bool = True,
        deadline_s: float,
        failure: str,
    ) -> ByteStream:
        with or_locked(self._lease):
            stream = self._inner.stream(script, args=args, root=root, deadline_s=deadline_s, failure=failure)
        return _FencedStream(stream, self._lease)


class _FencedStream:
    """A stream whose end or failure is Locked where the lease was lost."""

    def __init__(self, stream: ByteStream, lease: Lease) -> None:
        self._stream = stream
        self._lease = lease

    def read(self, size: int, timeout: float | None = None) -> bytes:
        with or_locked(self._lease):
            data = self._stream.read(size, timeout)
        if not data:
            raise_if_lost(self._lease)
        return data

    def write(self, data: bytes, timeout: float | None = None) -> None:
        with or_locked(self._lease):
            self._stream.write(data, timeout)

    def readable(self) -> bool:
        return self._stream.readable()

    def close(self) -> None:
        self._stream.close()


@contextmanager
def or_locked(lease: Lease) -> Iterator[None]:
    """What fails inside fails with Locked where the lease is another's; nothing begins without it."""
    lease.require()
    try:
        yield
    except (Locked, Interrupted):
        raise
    except CpudeployError:
        raise_if_lost(lease)
        raise


def raise_if_lost(lease: Lease) -> None:
    """Ask the host whether the lease is still ours. Raises Locked only."""
    try:
        lease.renew()
    except Locked:
        raise
    except (ConnectError, OperationFailed):
        return  # nobody can tell, and what failed says it better
