"""A host over SSH: a channel of one connection for each process and port."""

from __future__ import annotations

import threading

import fabric
import paramiko

from ..errors import ConnectError, ConnectionLost, OperationFailed
from ..secrets import Secrets
from ..types.deployment import Host
from .base import ByteStream
from .channels import ChannelWire
from .scripted import START_S, Scripts
from .ssh import close_ssh
from .wire import Deadline, Wire, WireStream

MOST_CHANNELS = 8
"""sshd allows ten sessions a connection; a person may be logged in through the same one."""
_SESSION = "another session on this connection"


class SshConnection(Scripts):
    """Over an open fabric connection, which it owns from now on."""

    def __init__(
        self, host: Host, secrets: Secrets, connection: fabric.Connection, notes: tuple[str, ...]
    ) -> None:
        super().__init__(host, secrets, notes)
        self._connection = connection
        self._channels = threading.BoundedSemaphore(MOST_CHANNELS)

    def _start(self, command: str, deadline: Deadline) -> Wire:
        channel = self._channel(_SESSION, deadline.left(), "session")
        wire = ChannelWire(channel, self._channels.release)
        try:
            channel.settimeout(deadline.left())
            channel.exec_command(command)
        except (OSError, EOFError, paramiko.SSHException) as error:
            wire.close()
            raise ConnectionLost(
                f"no command could be started: {_reason(error)}", where=self.host.name
            ) from None
        return wire

    def dial_tcp(self, address: str, port: int) -> ByteStream:
        place = f"{address}:{port}"
        channel = self._channel(place, START_S, "direct-tcpip", (address, port), ("127.0.0.1", 0))
        return WireStream(ChannelWire(channel, self._channels.release), where=self.host.name, failure=place)

    def close(self) -> None:
        close_ssh(self._connection)

    def _channel(self, what: str, wait_s: float | None, *request: object) -> paramiko.Channel:
        transport = self._connection.transport
        if not transport.is_active():
            raise ConnectionLost("the connection is closed", where=self.host.name)
        if not self._channels.acquire(timeout=-1 if wait_s is None else wait_s):
            raise OperationFailed(
                f"all {MOST_CHANNELS} channels are in use, none came free for {what}", where=self.host.name
            )
        try:
            channel: paramiko.Channel = transport.open_channel(*request, timeout=wait_s)
        except paramiko.ChannelException as error:
            self._channels.release()
            raise self._refused(what, error) from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            # For itself and its own ports sshd answers at once: without an answer, the host hangs or is gone.
            self._channels.release()
            raise ConnectionLost(f"no channel for {what}: {_reason(error)}", where=self.host.name) from None
        return channel

    def _refused(self, what: str, error: paramiko.ChannelException) -> ConnectError | OperationFailed:
        if what == _SESSION:
            return ConnectError(
                f"sshd does not allow {what}: {error.text}",
                where=self.host.name,
                do=f"raise MaxSessions in sshd_config to its default, 10 (up to {MOST_CHANNELS} are used)",
            )
        if error.code == 1:
            return ConnectError(
                f"sshd does not allow {what}",
                where=self.host.name,
                do="allow it in sshd_config (AllowTcpForwarding, PermitOpen)",
            )
        return OperationFailed(f"the host can't reach {what}: {error.text}", where=self.host.name)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
