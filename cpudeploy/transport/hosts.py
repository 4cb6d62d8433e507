"""Connections: what `base.Connection` promises, over SSH channels or over pipes on this machine.

`Scripts` holds everything that is only dialogue; `SshConnection` and `LocalConnection` add how a
process is started and a port is reached.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import fabric
import paramiko

from ..errors import ConnectError, ConnectionLost, OperationFailed
from ..secrets import Secret, Secrets
from ..types.deployment import Host
from .base import ByteStream, Completed, OnLine, Root
from .channels import ChannelWire
from .scripts import ENGINE, put_file
from .shell import piped, supervised
from .ssh import close_ssh
from .talk import Terms, begin, finish, open_stream
from .wire import Deadline, Wire, WireStream

MOST_CHANNELS = 8
"""sshd allows ten sessions a connection; a person may be logged in through the same one."""
_SESSION = "another session on this connection"
START_S = 30.0
"""Seconds for a shell with root to be ready, where the caller gives no deadline of its own."""


class Scripts(ABC):
    """A connection but for how processes start. Subclasses give `_start`, `dial_tcp` and `close`."""

    def __init__(self, host: Host, secrets: Secrets, notes: tuple[str, ...] = ()) -> None:
        self.host = host
        self.notes = notes
        self._root: Root | None = None
        reference = host.sudo.password
        self._password: Callable[[], Secret] | None = (
            None if reference is None else lambda: secrets.get(reference)
        )

    @abstractmethod
    def _start(self, command: str, deadline: Deadline) -> Wire: ...

    @abstractmethod
    def dial_tcp(self, address: str, port: int) -> ByteStream: ...

    @abstractmethod
    def close(self) -> None: ...

    @property
    def root(self) -> Root:
        if self._root is None:
            self.run(":", root=self.host.sudo.use != "none", deadline_s=START_S)
        assert self._root is not None
        return self._root

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
        deadline = Deadline(deadline_s)
        terms = self._terms(root)
        dialogue = supervised(script, args or {}, become=self._become(root), stdin=stdin)
        wire = self._start(dialogue.command, deadline)
        try:
            begun = begin(wire, dialogue, terms, deadline)
            self._learn(begun.root)
            return finish(wire, dialogue, begun, terms, deadline, on_line)
        finally:
            wire.close()

    def stream(
        self,
        script: str,
        *,
        args: Mapping[str, str] | None = None,
        root: bool = True,
        deadline_s: float,
        failure: str = "",
    ) -> ByteStream:
        deadline = Deadline(deadline_s)
        terms = self._terms(root)
        dialogue = piped(script, args or {}, become=self._become(root))
        wire = self._start(dialogue.command, deadline)
        try:
            begun = begin(wire, dialogue, terms, deadline)
            self._learn(begun.root)
            return open_stream(wire, dialogue, begun, terms, deadline, failure)
        except BaseException:
            wire.close()
            raise

    def put(self, path: str, data: bytes, *, mode: str, owner: str = "root", deadline_s: float) -> None:
        put_file(self, path, data, mode=mode, owner=owner, deadline_s=deadline_s)

    def dial_engine(self) -> ByteStream:
        return self.stream(ENGINE, deadline_s=START_S, failure="the container engine can't be reached")

    def _become(self, root: bool) -> bool:
        return root and self.host.sudo.use != "none"

    def _terms(self, root: bool) -> Terms:
        return Terms(where=self.host.name, need_root=root, password=self._password if root else None)

    def _learn(self, had: Root) -> None:
        if had == "none" and self.host.sudo.use != "none":
            return  # root was not asked for
        if self._root != "sudo-password":  # sudo remembers a password for a while: asked once stays true
            self._root = had


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
