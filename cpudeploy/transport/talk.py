"""Carries a dialogue of `shell.py` over a wire, under one deadline.

In: a wire whose process was started with the dialogue's command. Out: how root was had, and a
completed script or an open stream. It must never send the password but after sudo's prompt, nor a
script but after the ready mark; it must never wait past the deadline or leave the wire open on an
error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ConnectError, ConnectionLost, CpudeployError, OperationFailed, SudoError
from ..secrets import Secret
from .base import Completed, OnLine, Root
from .shell import Dialogue
from .wire import Deadline, Wire, WireStream, last_line

_SUDO_DO = "log in as root, or let this user run sh with sudo (see `sudo -l` on the host)"
_POLL_S = 0.05
"""How long to wait for room for stdin before looking for output again: neither may block the other."""


@dataclass(frozen=True)
class Terms:
    """What holds for a whole connection: whose host, what is needed, where the password comes from."""

    where: str
    need_root: bool
    password: Callable[[], Secret] | None


@dataclass(frozen=True)
class Begun:
    """The script was sent. What followed the ready marks already."""

    root: Root
    stdout: bytes
    stderr: bytes


def begin(wire: Wire, dialogue: Dialogue, terms: Terms, deadline: Deadline) -> Begun:
    """Speak until a shell with root is ready, and send it the script."""
    out, err = bytearray(), bytearray()
    asked = False
    while True:
        got_out, got_err = wire.receive(deadline.left())
        out += got_out
        err += got_err
        ready_out, ready_err = _after_ready(out, dialogue), _after_ready(err, dialogue)
        if ready_out and ready_err:
            mode, rest_out = ready_out
            root = _root(mode, asked, terms)
            _send(wire, dialogue.payload, terms, deadline)
            return Begun(root=root, stdout=rest_out, stderr=ready_err[1])
        if err.endswith(dialogue.prompt):
            if asked:
                raise SudoError(
                    "sudo did not accept the password", where=terms.where, do="check `sudo: {password: …}`"
                )
            if terms.password is None:
                raise SudoError(
                    "sudo asks for a password and none is given",
                    where=terms.where,
                    do="give `sudo: {password: {from_env: …}}`, or allow NOPASSWD",
                )
            asked = True
            err.clear()
            _send(wire, terms.password().reveal().encode() + b"\n", terms, deadline)
        elif wire.ended:
            raise _refused(wire, dialogue, asked, bytes(out), bytes(err), terms)
        elif deadline.past:
            raise _late(wire, deadline, "no shell was ready", last_line(err, out), terms)


def finish(
    wire: Wire, dialogue: Dialogue, begun: Begun, terms: Terms, deadline: Deadline, on_line: OnLine | None
) -> Completed:
    """Feed stdin, drain both streams to the script's end, and give its result."""
    out, err = bytearray(begun.stdout), bytearray(begun.stderr)
    pending = memoryview(dialogue.stdin)
    given = not pending
    lines = _Lines(dialogue.end, on_line)
    out_end, err_end = _Mark(dialogue.end), _Mark(dialogue.end)
    while True:
        if not given and out.startswith(dialogue.given):
            del out[: len(dialogue.given)]
            given = True
            out_end = _Mark(dialogue.end)
        if given:
            lines.feed(out)
        at, err_at = out_end.find(out), err_end.find(err)
        code = -1 if at < 0 else out.find(b"\n", at)
        if code >= 0 and err_at >= 0:
            return Completed(int(out[at + len(dialogue.end) : code]), bytes(out[:at]), _text(err[:err_at]))
        if wire.ended:
            return _without_end(wire, out, err, terms, deadline)
        if deadline.past:
            raise _late(wire, deadline, "the script did not end", last_line(out, err), terms)
        if given and pending:
            try:
                pending = pending[wire.offer(pending, _POLL_S) :]
            except BrokenPipeError:  # the script ended without reading it all; how, the streams tell
                pending = pending[:0]
        got_out, got_err = wire.receive(0 if given and pending else deadline.left())
        out += got_out
        err += got_err


def open_stream(
    wire: Wire, dialogue: Dialogue, begun: Begun, terms: Terms, deadline: Deadline, failure: str
) -> WireStream:
    """The stream of a `piped` dialogue, once its script has been read over there."""
    out, err = bytearray(begun.stdout), bytearray(begun.stderr)
    while not out.startswith(dialogue.given):
        if wire.ended:
            raise OperationFailed(_joined(failure, last_line(err, out)), where=terms.where)
        if deadline.past:
            raise _late(wire, deadline, "the stream did not open", last_line(err, out), terms)
        got_out, got_err = wire.receive(deadline.left())
        out += got_out
        err += got_err
    rest = bytes(out[len(dialogue.given) :])
    return WireStream(wire, where=terms.where, failure=failure, first=rest, stderr=bytes(err))


class _Mark:
    """Where a mark stands in a buffer that only grows; each byte is looked at once."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._seen = 0
        self._at = -1

    def find(self, buffer: bytearray) -> int:
        """Its first position, -1 while it isn't there."""
        if self._at < 0:
            self._at = buffer.find(self._mark, self._seen)
            self._seen = max(0, len(buffer) - len(self._mark) + 1)
        return self._at


class _Lines:
    """Tells whole lines of a growing buffer, without the end mark."""

    def __init__(self, end: bytes, on_line: OnLine | None) -> None:
        self._end = end
        self._on_line = on_line
        self._told = 0

    def feed(self, out: bytearray) -> None:
        if self._on_line is None:
            return
        while (newline := out.find(b"\n", self._told)) >= 0:
            line = out[self._told : newline]
            self._told = newline + 1
            mark = line.find(self._end)
            if mark != 0:
                self._on_line(_text(line if mark < 0 else line[:mark]))


def _text(data: bytes | bytearray) -> str:
    return bytes(data).decode(errors="replace")


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)


def _after_ready(buffer: bytearray, dialogue: Dialogue) -> tuple[str, bytes] | None:
    """(how root was had, what follows) once the whole ready line is there."""
    start = buffer.find(dialogue.ready)
    newline = buffer.find(b"\n", start)
    if start < 0 or newline < 0:
        return None
    return _text(buffer[start + len(dialogue.ready) : newline]), bytes(buffer[newline + 1 :])


def _root(mode: str, asked: bool, terms: Terms) -> Root:
    if mode == "root":
        return "root"
    if mode == "sudo":
        return "sudo-password" if asked else "sudo"
    if terms.need_root:
        raise SudoError(
            "not root, and the manifest says `sudo: none`",
            where=terms.where,
            do="log in as root or allow sudo",
        )
    return "none"


def _send(wire: Wire, data: bytes, terms: Terms, deadline: Deadline) -> None:
    view = memoryview(data)
    while view:
        try:
            sent = wire.offer(view, deadline.left())
        except BrokenPipeError:
            raise ConnectionLost("the shell went away before it had its script", where=terms.where) from None
        if not sent:
            raise _late(wire, deadline, "the host stopped reading", "", terms)
        view = view[sent:]


def _without_end(wire: Wire, out: bytearray, err: bytearray, terms: Terms, deadline: Deadline) -> Completed:
    """The streams ended unannounced: a syntax error, a signal, or the connection broke."""
    if not wire.alive:
        raise ConnectionLost(
            _joined("the connection broke while a script ran", last_line(out, err)), where=terms.where
        )
    status = wire.exit_status(min(5.0, deadline.left() or 0.0))
    if status is None:
        raise OperationFailed(
            _joined("the script was killed on the host", last_line(out, err)), where=terms.where
        )
    return Completed(status, bytes(out), _text(err))


def _refused(
    wire: Wire, dialogue: Dialogue, asked: bool, out: bytes, err: bytes, terms: Terms
) -> CpudeployError:
    """Why it ended before a shell was ready: the login shell, or sudo."""
    if not wire.alive:
        return ConnectionLost("the connection broke while a shell was started", where=terms.where)
    _, login, said = err.partition(dialogue.login)
    if not login and not asked:
        status = wire.exit_status(2.0)
        return ConnectError(
            _joined(f"the login shell ended at once (exit code {status})", last_line(out, err)),
            where=terms.where,
            do="give this user a login shell that runs commands",
        )
    text = " · ".join(line.strip() for line in _text(said if login else err).splitlines() if line.strip())
    return SudoError(_joined("sudo refused", text), where=terms.where, do=_SUDO_DO)


def _late(wire: Wire, deadline: Deadline, what: str, line: str, terms: Terms) -> CpudeployError:
    within = f"{what} within {deadline.seconds:g} s" if deadline.seconds is not None else what
    text = _joined(within, f"last output: {line}" if line else "no output")
    kind = OperationFailed if wire.alive else ConnectionLost
    return kind(text, where=terms.where)
