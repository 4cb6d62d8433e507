"""The lease on a host: one controller at a time may change it.

In: a connection and who asks. Out: a `Lease`, kept alive by a thread of its own until it is released or
lost. The script that holds it (`scripts/keeper.sh`) runs on the host, on one open channel: where this process
ends, however it does, the script sees the end of its input, brings home what was armed, and gives the lease
back. Where the connection only went silent, the lease expires and anybody may take it over.
"""

from __future__ import annotations

import os
import secrets as random
import threading
from collections.abc import Callable
from importlib import resources
from typing import Any

import msgspec

from ..errors import ConnectionLost, CpudeployError, Locked, OperationFailed
from ..transport.base import ByteStream, Connection
from ..types.base import from_data, to_json
from ..types.names import STATE_DIR
from ..types.safety import InFlight
from ..who import who

TTL_S = 60
"""Seconds without a renewal after which anybody may take the lease over."""
RENEW_S = 5.0
_ANSWER_S = 30.0
"""Seconds to wait for the keeper's answer to a line."""
_START_S = 60.0
"""Seconds to have taken the lease, or to know who has it."""
_BUSY_S = 1.0
"""Seconds to wait for another thread's answer before letting go without a word, which says the same."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease, for people: the line `about` in it."""

    holder: str = "somebody"
    command: str = ""
    deployment: str = ""
    plan: str = ""


def whoami() -> str:
    """`ops@laptop (pid 4711)`: this process, for people."""
    return f"{who()} (pid {os.getpid()})"


def script(*names: str) -> str:
    """The texts of our scripts, one behind the other."""
    folder = resources.files(__package__) / "scripts"
    return "".join((folder / f"{name}.sh").read_text(encoding="utf-8") for name in names)


def about_from(line: str) -> About:
    """What a lease says of its holder, as far as it can be read."""
    try:
        return from_data(msgspec.json.decode(line), About)
    except (msgspec.MsgspecError, ValueError):
        return About()


def ago(seconds: int) -> str:
    """`12 s`, `3 min`, `2 h`: how long something has lasted, for people."""
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


class Lease:
    """A lease that was taken. Methods may be called from several threads. Every one but `release` and
    `close` raises Locked once it is another's, ConnectionLost once nobody holds it for us any more."""

    def __init__(self, stream: ByteStream, token: str, about: About, where: str, folder: str) -> None:
        self.token = token
        self.folder = folder
        self.about = about
        self._stream = stream
        self._where = where
        self._lock = threading.Lock()
        self._held = bytearray()
        self._over: Callable[[], CpudeployError] | None = None
        self._done = threading.Event()

    def require(self) -> None:
        """Raises when it is known to be over; asks nobody."""
        if self._over is not None:
            raise self._over()

    def renew(self) -> None:
        """It lives on, and the guards armed under it."""
        self._ask("renew")

    def begin(self, change: InFlight) -> None:
        """Note, before it is touched, what is about to change: on the disk when this returns."""
        self._ask(f"begin {_line(change)}")
        self.audit(event="begin", change=change.change, subject=change.subject)

    def at(self, change: InFlight) -> None:
        """Note how far it has come. Waits for nobody."""
        self._tell(f"at {_line(change)}")

    def end(self, change: str, status: str) -> None:
        """The change is over."""
        self.audit(event="end", change=change, status=status)
        self._ask("end")

    def finish(self, status: str, *, used: bool) -> None:
        """How the plan ended here; `used`: it is used up."""
        self._ask(f"finish {int(used)} {self._event(event='finish', status=status)}")

    def audit(self, **event: str) -> None:
        """A line of `audit.jsonl`; the host adds its time."""
        self._tell(f"audit {self._event(**event)}")

    def release(self, wait_s: float = _ANSWER_S) -> None:
        """Give it back; guards that are still armed are fired first, for which is waited `wait_s` at most.
        Without the lease that is done."""
        if self._over is None and self._lock.acquire(timeout=_BUSY_S):
            self._over = self._given_back  # from here on nothing begins beside what is put back there
            try:
                self._send("bye")
                self._answer(wait_s)
            except CpudeployError:
                pass  # lost, or out of reach: then it is not ours to give
            finally:
                self._lock.release()
        self.close()

    def close(self) -> None:
        """Let go, without waiting for long: the end of the channel says the same to the host."""
        self._done.set()
        self._over = self._over or self._given_back
        self._stream.close()

    def keep(self, every_s: float) -> None:
        """Renew it in a thread of its own until it is over."""
        threading.Thread(target=self._keep, args=(every_s,), daemon=True, name="lease").start()

    def _keep(self, every_s: float) -> None:
        while not self._done.wait(every_s):
            try:
                self.renew()
            except OperationFailed:
                continue  # a full disk, perhaps: as long as it lasts, it is ours
            except CpudeployError:
                return  # known from now on, to whoever does something next

    def _event(self, **event: str) -> str:
        about = self.about
        known = {"by": about.holder, "command": about.command, "deployment": about.deployment}
        return _line({**event, **known, "plan": about.plan})

    def _tell(self, line: str) -> None:
        with self._lock:
            self.require()
            self._send(line)

    def _ask(self, line: str) -> None:
        with self._lock:
            self.require()
            self._send(line)
            word, rest = self._answer(_ANSWER_S)
        if word == "lost":
            self._over = lambda: _lost(rest, self._where)
            raise self._over()
        if word == "failed":
            verb = line.partition(" ")[0]
            raise OperationFailed(
                f"the state folder could not be written ({verb}): {rest}",
                where=self._where,
                do="see whether the disk is full or read-only",
            )

    def _send(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n".encode(), _ANSWER_S)
        except (ConnectionLost, TimeoutError):
            # What it said before it went is still there to be read, where it went because it lost the lease.
            word, rest = self._answer(1.0)
            if word != "lost":
                raise self._gone() from None
            self._over = lambda: _lost(rest, self._where)
            raise self._over() from None

    def _answer(self, timeout: float) -> tuple[str, str]:
        try:
            while (newline := self._held.find(b"\n")) < 0:
                data = self._stream.read(4096, timeout)
                if not data:
                    raise self._gone()
                self._held += data
        except (ConnectionLost, OperationFailed, TimeoutError):
            raise self._gone() from None
        line = bytes(self._held[:newline]).decode(errors="replace")
        del self._held[: newline + 1]
        word, _, rest = line.partition(" ")
        return word, rest.strip()

    def _given_back(self) -> CpudeployError:
        return ConnectionLost("the lease was given back", where=self._where)

    def _gone(self) -> CpudeployError:
        """The channel ended or went silent: whether it is still ours, nobody tells."""
        self._over = lambda: ConnectionLost(
            "the connection that holds this host's lease is gone", where=self._where, do="apply again"
        )
        return self._over()


def take_lease(
    connection: Connection,
    *,
    command: str,
    deployment: str,
    plan: str,
    ttl_s: int = TTL_S,
    renew_s: float = RENEW_S,
    state: str = STATE_DIR,
    proc: str = "/proc",
) -> Lease:
    """Take the lease of a host, or take over one that has expired, and keep it.

    Raises Locked saying who holds it, since when, and how to break it; OperationFailed where nothing can be
    written there.
    """
    where = connection.host.name
    token = random.token_hex(12)
    about = About(holder=whoami(), command=command, deployment=deployment, plan=plan)
    stream = connection.stream(
        script("lease", "guard", "keeper"),
        args={
            "state": state,
            "proc": proc,
            "token": token,
            "about": _line(about),
            "ttl_s": str(ttl_s),
            "deployment": deployment,
            "plan": plan,
        },
        deadline_s=_START_S,
        failure="the lease can't be taken",
    )
    lease = Lease(stream, token, about, where, f"{state}/lease/{token}")
    try:
        word, rest = lease._answer(_START_S)
        if word == "held":
            raise _locked(rest, where)
        if word == "damaged":
            raise OperationFailed(
                f"the lease is damaged: {state}/lease is there and names nobody",
                where=where,
                do="if nobody works there, cpudeploy unlock takes it away",
            )
        if word != "taken":
            raise OperationFailed(
                f"the lease can't be taken: {rest}", where=where, do=f"see that {state} can be written"
            )
    except BaseException:
        lease.close()
        raise
    if rest:
        lease.audit(event="taken over", of=about_from(rest).holder)
    lease.keep(renew_s)
    return lease


def _locked(said: str, where: str) -> Locked:
    since, silent, line = [*said.split(" ", 2), "", ""][:3]
    about = about_from(line)
    quiet = int(silent) if silent.isdigit() else 0
    heard = f", not heard of for {ago(quiet)}" if quiet > 2 * RENEW_S else ""
    since_s = int(since) if since.isdigit() else 0
    return Locked(
        f"{about.holder} has held this host for {ago(since_s)} ({_doing(about)}{heard})",
        where=where,
        do="wait until it is done; if nobody works there any more, cpudeploy unlock",
    )


def _lost(line: str, where: str) -> Locked:
    about = about_from(line)
    if not line:
        return Locked(
            "this host is not ours any more: somebody unlocked it, or nothing was heard from here for so "
            "long that a guard put back what it guards",
            where=where,
            do="plan again",
        )
    return Locked(
        f"the lease on this host was lost: {about.holder} took it over ({_doing(about)}); "
        "nothing was changed since",
        where=where,
        do="wait until that is done, then plan again",
    )


def _doing(about: About) -> str:
    return f"{about.command} of {about.deployment}" if about.deployment else about.command or "unknown"


def _line(value: Any) -> str:
    """As JSON on one line."""
    return to_json(value).decode()
