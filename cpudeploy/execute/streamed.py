"""A weights file downloaded here and streamed to the host as it comes: nothing of it stays on this machine.

In: a URL and what the host has of the file. Out: how the attempt ended. Asks for the rest by HTTP range,
sends it through the host's connection, and believes only what the host says it has.
"""

from __future__ import annotations

import contextlib
import queue
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import httpx

from ..errors import ConnectionLost, OperationFailed
from ..secrets import Secrets
from ..transport.base import ByteStream
from ..types.operation import Fetch
from .fetching import FAILED, PATIENCE_S, TOO_LONG, Attempt, Ended, Shell, arguments, login_for, script

_START_S = 30.0
_CONNECT_S = 20.0
_AHEAD = 64
"""Pieces, of 64 KiB at most, read from the source before the host has taken them."""
_TICK_S = 1.0


Pieces = Callable[[str, int], Iterator[bytes]]
"""(where the file is, from which byte on) → its bytes to the end. Raises SourceFailed."""


def streamed_attempt(host: Shell, operation: Fetch, secrets: Secrets) -> Attempt:
    """Attempts that pull from the source and push to the host's script."""
    return pushed(
        host,
        operation,
        lambda url, offset: _pieces(url, login_for(operation.file, url, secrets), offset, operation),
    )


def pushed(host: Shell, operation: Fetch, pieces: Pieces) -> Attempt:
    """Attempts that push what `pieces` gives to the host's script."""

    def attempt(url: str, had: int, left_s: float, told: Callable[[int], None]) -> Ended:
        deadline = time.monotonic() + left_s
        # Who streamed before us and was cut off is noticed by the host only when nothing comes any more.
        args = arguments(operation, patience_s=PATIENCE_S + 2 * operation.stall_s)
        stream = host.stream(
            script("receive"), args=args, deadline_s=min(_START_S, left_s), failure="nothing can be received"
        )
        receiver = _Receiver(stream, Ended(have=had), told, operation, deadline)
        try:
            offset = receiver.begins()
            if offset is not None:
                receiver.send(pieces(url, offset))
        finally:
            stream.close()
        return receiver.ended

    return attempt


class _Receiver:
    """The script on the host while it takes the file."""

    def __init__(
        self,
        stream: ByteStream,
        ended: Ended,
        told: Callable[[int], None],
        operation: Fetch,
        deadline: float,
    ) -> None:
        self.ended = ended
        self._stream = stream
        self._told = told
        self._operation = operation
        self._deadline = deadline
        self._text = bytearray()
        self._offset: int | None = None
        self._over = False

    def begins(self) -> int | None:
        """From which byte on the host wants the file; None when it wants nothing."""
        while self._offset is None and not self._over:
            self._listen(_TICK_S)
        return None if self._over else self._offset

    def send(self, pieces: Iterator[bytes]) -> None:
        """Everything of `pieces`, then wait for the host's verdict."""
        ahead = _ReadAhead(pieces)
        try:
            while not self._over:
                while self._stream.readable() and not self._over:
                    self._listen(0)
                try:
                    piece = ahead.next(_TICK_S)
                except queue.Empty:
                    self._in_time()
                    self._told(self.ended.have)
                    continue
                if piece is None:
                    break
                self._write(piece)
        except SourceFailed as failed:
            self.ended.code, self.ended.error = failed.code, str(failed)
            self.ended.status, self.ended.stalled = failed.status, failed.stalled
            return
        finally:
            ahead.stop()
        while not self._over:
            self._listen(_TICK_S)

    def _write(self, piece: bytes) -> None:
        self._in_time()
        try:
            self._stream.write(piece, self._operation.stall_s)
        except TimeoutError:
            raise OperationFailed(
                f"{self._operation.file.name}: the host took nothing for {self._operation.stall_s} s",
                do="see whether its disk hangs, then apply again: what is there is kept",
            ) from None
        except ConnectionLost:
            # Ended by the script, which then has said why, or by the connection, which reading tells.
            while not self._over:
                self._listen(_TICK_S)

    def _listen(self, timeout: float) -> None:
        """Take what the script tells within `timeout`. Its end without a word is the connection's."""
        self._in_time()
        try:
            data = self._stream.read(4096, timeout)
        except TimeoutError:
            return
        if not data:
            self._over = True
            self.ended.error = self.ended.error or "the script on the host was ended"
            return
        self._text += data
        while (newline := self._text.find(b"\n")) >= 0:
            line = bytes(self._text[:newline]).decode(errors="replace")
            del self._text[: newline + 1]
            word = self.ended.line(line)
            if word == "have":
                self._told(self.ended.have)
            elif word == "begin":
                self._offset = int(line.partition(" ")[2])
            elif word == "end":
                self._over = True

    def _in_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise OperationFailed(
                f"{self._operation.file.name} was not fetched in {self._operation.deadline_s} s"
            )


class SourceFailed(Exception):
    """The source did not give what it should."""

    def __init__(
        self, what: str, *, code: int = FAILED, status: int | None = None, stalled: bool = False
    ) -> None:
        super().__init__(what)
        self.code = code
        self.status = status
        self.stalled = stalled


def _pieces(url: str, login: Mapping[str, str], offset: int, operation: Fetch) -> Iterator[bytes]:
    """The file from `offset` to its end. Raises SourceFailed for anything else."""
    size = operation.file.size
    left = size - offset
    if left == 0:
        return
    headers = {"User-Agent": "cpudeploy", "Accept-Encoding": "identity", **login}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    timeout = httpx.Timeout(operation.stall_s, connect=_CONNECT_S)
    try:
        with (
            _client(timeout, secure=url.startswith("https:")) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            passed = offset if _continues(response, offset, size) else 0
            for piece in response.iter_raw():
                # Of a longer file only so much: the host's checksum then tells, and removes what it has.
                fresh = piece[max(0, offset - passed) :][:left]
                passed += len(piece)
                left -= len(fresh)
                if fresh:
                    yield fresh
                if not left:
                    break
    except httpx.ReadTimeout:
        raise SourceFailed(f"nothing came for {operation.stall_s} s", stalled=True) from None
    except httpx.ConnectTimeout:
        raise SourceFailed(f"no connection within {_CONNECT_S:g} s", stalled=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceFailed(str(error) or type(error).__name__) from None
    if left:
        raise SourceFailed(f"the server ended after {size - left} of {size} bytes")


def _continues(response: httpx.Response, offset: int, size: int) -> bool:
    """Whether the answer begins at `offset`; else it is the whole file."""
    status = response.status_code
    if status not in (200, 206):
        raise SourceFailed(f"it answered {status}", status=status)
    if status == 200:
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and int(length) != size:
            raise SourceFailed("it has another length", code=TOO_LONG)
        return False
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != offset:
        raise SourceFailed("it gave another part than was asked for")
    if found[2] not in ("*", str(size)):
        raise SourceFailed("it has another length", code=TOO_LONG)
    return True


def _client(timeout: httpx.Timeout, *, secure: bool) -> httpx.Client:
    """Follows redirects, also to other hosts, which then get no token; never from TLS to none."""

    def only_tls(request: httpx.Request) -> None:
        if secure and request.url.scheme != "https":
            raise SourceFailed(f"it redirects to {request.url.scheme}, without TLS")

    return httpx.Client(
        verify=ssl.create_default_context(),
        timeout=timeout,
        follow_redirects=True,
        max_redirects=10,
        event_hooks={"request": [only_tls]},
    )


class _ReadAhead:
    """Draws from an iterator in a thread of its own, a few pieces ahead of who takes them."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._queue: queue.Queue[bytes | None | Exception] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        threading.Thread(target=self._draw, args=(pieces,), daemon=True).start()

    def next(self, timeout: float) -> bytes | None:
        """The next piece, None after the last. Raises queue.Empty, and what the iterator raised."""
        found = self._queue.get(timeout=timeout)
        if isinstance(found, Exception):
            raise found
        return found

    def stop(self) -> None:
        """Nothing more is wanted."""
        self._stopped.set()

    def _draw(self, pieces: Iterator[bytes]) -> None:
        last: Exception | None = None
        try:
            for piece in pieces:
                if not self._put(piece):
                    return
        except Exception as error:
            last = error
        finally:
            with contextlib.suppress(Exception):
                pieces.close()  # type: ignore[attr-defined]
        self._put(last)

    def _put(self, found: bytes | None | Exception) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(found, timeout=_TICK_S)
                return True
            except queue.Full:
                continue
        return False
