"""A connection but for how processes start and ports are reached: everything that is only dialogue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from ..secrets import Secret, Secrets
from ..types.deployment import Host
from .base import ByteStream, Completed, OnLine, Root
from .scripts import ENGINE, put_file
from .shell import piped, supervised
from .talk import Terms, begin, finish, open_stream
from .wire import Deadline, Wire

START_S = 30.0
"""Seconds for a shell with root to be ready, where the caller gives no deadline of its own."""


class Scripts(ABC):
    """What `base.Connection` promises; subclasses give `_start`, `dial_tcp` and `close`."""

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
