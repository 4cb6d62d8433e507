"""This machine as a host: the same dialogue over pipes, no SSH."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import subprocess

from ..errors import OperationFailed
from .base import ByteStream
from .scripted import START_S, Scripts
from .wire import Deadline, Wire, WireStream

_CHUNK = 1 << 18


class LocalConnection(Scripts):
    """Processes of this machine. Root is had by being root, or by sudo."""

    def _start(self, command: str, deadline: Deadline) -> Wire:
        return ProcessWire(command)

    def dial_tcp(self, address: str, port: int) -> ByteStream:
        try:
            sock = socket.create_connection((address, port), timeout=START_S)
        except OSError as error:
            raise OperationFailed(
                f"{address}:{port} can't be reached: {error.strerror or error}", where=self.host.name
            ) from None
        return WireStream(SocketWire(sock), where=self.host.name, failure=f"{address}:{port}")

    def close(self) -> None:
        """Nothing is held between scripts."""


class ProcessWire:
    """A process in a session of its own, so that ending it ends what it started."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin
        self._outputs = {self._process.stdout.fileno(): 0, self._process.stderr.fileno(): 1}
        os.set_blocking(self._stdin.fileno(), False)

    def receive(self, timeout: float | None) -> tuple[bytes, bytes]:
        found = [b"", b""]
        for number in _ready(list(self._outputs), timeout):
            data = os.read(number, _CHUNK)
            if data:
                found[self._outputs[number]] = data
            else:
                del self._outputs[number]
        return found[0], found[1]

    @property
    def ended(self) -> bool:
        return not self._outputs

    @property
    def alive(self) -> bool:
        return True

    def offer(self, data: bytes | memoryview, timeout: float | None) -> int:
        if not _writable(self._stdin.fileno(), timeout):
            return 0
        return os.write(self._stdin.fileno(), data[:4096])

    def exit_status(self, timeout: float) -> int | None:
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return None if status < 0 else status

    def readable(self) -> bool:
        return self.ended or bool(_ready(list(self._outputs), 0))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()
        # The end of its stdin ends a script of ours; a process that doesn't listen is made to.
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel, or root's
                self._process.wait(5)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._outputs.clear()


class SocketWire:
    """A TCP connection as a wire without stderr."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ended = False

    def receive(self, timeout: float | None) -> tuple[bytes, bytes]:
        if self._ended or not _ready([self._sock.fileno()], timeout):
            return b"", b""
        try:
            data = self._sock.recv(_CHUNK)
        except OSError:
            data = b""
        self._ended = not data
        return data, b""

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def alive(self) -> bool:
        return True

    def offer(self, data: bytes | memoryview, timeout: float | None) -> int:
        self._sock.settimeout(timeout)
        try:
            return self._sock.send(data)
        except TimeoutError:
            return 0
        except OSError as error:
            raise BrokenPipeError(str(error)) from None

    def exit_status(self, timeout: float) -> int | None:
        return None

    def readable(self) -> bool:
        return self._ended or bool(_ready([self._sock.fileno()], 0))

    def close(self) -> None:
        self._ended = True
        self._sock.close()


def _ready(numbers: list[int], timeout: float | None) -> list[int]:
    if not numbers:
        return []
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLIN)
    return [number for number, _ in poll.poll(None if timeout is None else math.ceil(timeout * 1000))]


def _writable(number: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return bool(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
