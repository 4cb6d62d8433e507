"""A Wire over a channel of an SSH connection.

Both streams are drained by one waiter (waiting on one of them alone hangs on large output of the
other), the exit status is awaited with a limit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import paramiko

_CHUNK = 1 << 18


class _News(threading.Event):
    """Set when either stream has bytes or its end.

    paramiko clears it when one stream is empty, whatever the other has, so only the waiter clears.
    Channel.fileno() would do all this with a pipe, but its descriptors are closed while paramiko's
    thread may still write to them: that ends the whole connection, or worse, hits a reused descriptor.
    """

    def clear(self) -> None:
        pass

    def forget(self) -> None:
        super().clear()


class ChannelWire:
    """Takes the channel over; `released` is called once, when it is closed."""

    def __init__(self, channel: paramiko.Channel, released: Callable[[], None]) -> None:
        self._channel = channel
        self._released = released
        self._closed = False
        self._news = _News()
        channel.in_buffer.set_event(self._news)
        channel.in_stderr_buffer.set_event(self._news)

    def receive(self, timeout: float | None) -> tuple[bytes, bytes]:
        channel = self._channel
        self._news.forget()  # before looking: what comes after that is not missed
        if not self.readable():
            self._news.wait(timeout)
        out = channel.recv(_CHUNK) if channel.recv_ready() else b""
        err = channel.recv_stderr(_CHUNK) if channel.recv_stderr_ready() else b""
        return out, err

    @property
    def ended(self) -> bool:
        # In this order: the end is set only after the last bytes have been put into the buffers.
        finished = bool(self._channel.eof_received or self._channel.closed)
        return finished and not self._channel.recv_ready() and not self._channel.recv_stderr_ready()

    @property
    def alive(self) -> bool:
        transport = self._channel.get_transport()
        return bool(transport.is_active())

    def offer(self, data: bytes | memoryview, timeout: float | None) -> int:
        self._channel.settimeout(timeout)
        try:
            sent = self._channel.send(bytes(data[:_CHUNK]))
        except TimeoutError:
            return 0
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise BrokenPipeError(str(error)) from None
        if not sent:
            raise BrokenPipeError("the channel is closed")
        return sent

    def exit_status(self, timeout: float) -> int | None:
        self._channel.status_event.wait(timeout)
        status = self._channel.exit_status
        return None if status < 0 else status

    def readable(self) -> bool:
        return self._channel.recv_ready() or self._channel.recv_stderr_ready() or self.ended

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
        self._released()
