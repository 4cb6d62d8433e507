"""The health gate: a started container in, nothing out when it serves, else ModelNotServing.

Stable first, then every check in order. An exit ends it at once, whatever its code: nobody who serves exits.
An answer that no waiting will change ends it after some asking; the deadline ends what hangs. An engine that
is silent for a moment says nothing about the model: it is asked again. A container that was removed, or
went down with its engine, is no verdict on the model either: that is GateDisturbed.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import EngineError
from ..transport.wire import Deadline
from ..types.operation import Wait
from ..types.outcome import Failure
from ..types.release import Check
from .ask import Answer, Asker, Dial, Unreachable
from .cause import last_words, shown
from .check import differs, is_final
from .engine import EngineClient, EngineLost, EngineSilent
from .failure import GateDisturbed, ModelNotServing, diagnose

_SHOWN_LINES = 15
_READ_LINES = 3000
"""Enough for the tracebacks of eight processes, of which the first one tells."""
_LIVE_LINES = 30
_POLL_S = (0.3, 0.45, 0.7, 1.0)
_FINAL_AFTER = 10
"""So many times in a row, about ten seconds: then an answer that is no `not yet` is the last word."""
_GET_S = 10.0
_CORRECT = "correct its image, version or args after what the log says, then apply again"
_LONGER = (
    "see in the log what it waits for; its time is start_s and more for more bytes to load: if it only needs "
    "longer, give another health.start_s in a playbook of your own"
)
_OTHER_KEY = (
    "take out of image, args or env what gives it another key: the one of the manifest's api_key was sent"
)
_NO_KEY = "take out of image, args or env what asks for a key, or give the model an api_key"
_OTHER_NAME = "take out of image or args what gives it another name, or make that its served_name"
_UNAUTHORISED = (401, 403)
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 (an address to recognise, not to bind)


class HealthGate:
    """One wait. `alive(line)` is told the last log line while it lasts; logs pass through `redact`."""

    def __init__(
        self,
        engine: EngineClient,
        dial: Dial,
        operation: Wait,
        key: str | None,
        alive: Callable[[str], None],
        redact: Callable[[str], str],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine = engine
        self._deadline_s = min(operation.gate.deadline_s, operation.deadline_s)
        self._deadline = Deadline(self._deadline_s)
        self._dial = dial
        self._wait = operation
        self._key = key
        self._alive = alive
        self._redact = redact
        self._sleep = sleep
        self._begun = time.monotonic()
        self._restarts: int | None = None
        self._engine_lost = False
        self._last_line = ""
        self._polls = 0

    def pass_or_raise(self) -> None:
        """Return when the model serves; raise ModelNotServing with everything seen when it doesn't."""
        gate = self._wait.gate
        inspected = self._running()
        while time.monotonic() - self._begun < gate.stable_s:
            self._pause(f"not stable for {gate.stable_s} s")
            inspected = self._running()
        container, address = self._wait.container, _address(inspected, self._wait)
        asker = Asker(self._engine, self._dial, container, address, gate.port, self._key)
        try:
            for number, check in enumerate(gate.checks):
                self._until(check, asker, ready=number > 0)
        finally:
            asker.close()
        self._running()

    def _until(self, check: Check, asker: Asker, *, ready: bool) -> None:
        """`ready`: its server has passed the first check, so that what it answers holds."""
        self._polls, same, last = 0, 0, ""
        while True:
            left = max(1.0, self._deadline.left() or 0.0)
            # A completion takes as long as the host needs; anything else answers soon or not at all.
            timeout = left if check.method == "POST" else min(_GET_S, left)
            answer = None
            try:
                answer = asker.ask(check, timeout)
                wrong = differs(check, answer.status, answer.body)
            except Unreachable as error:
                wrong = str(error)
            if not wrong:
                return
            self._running()
            if answer is not None and _asks_instead(check, answer):
                check, same, last = check.instead or check, 0, ""
                continue
            verdict = answer is not None and is_final(check, answer.status)
            same, last = (same + 1 if wrong == last else 1), wrong
            missing = f"check {check.name} ({check.method} {check.path}): {wrong}"
            do = self._advice(check, answer)
            if ready and verdict and same >= _FINAL_AFTER:
                told = f"does not serve, and waiting won't change it: {missing}"
                raise self._verdict(told, do, answered=True)
            self._pause(missing, do, answered=verdict)

    def _advice(self, check: Check, answer: Answer | None) -> str:
        if answer is None:
            return _LONGER
        if answer.status in _UNAUTHORISED and check.auth:
            return _NO_KEY if self._key is None else _OTHER_KEY
        return _OTHER_NAME if check.equals is not None and answer.status == check.status else _LONGER

    def _running(self) -> dict[str, Any]:
        """Inspect; raises when the container is not up, or was restarted since the gate began."""
        name, found = self._wait.container, self._inspected()
        if found is None:
            raise GateDisturbed(Failure(what=f"{name} is gone: something else removed it", do="apply again"))
        state, restarts = found["State"], int(found.get("RestartCount") or 0)
        if self._restarts is None:
            self._restarts = restarts
        if state["Running"] and not state.get("Restarting") and restarts == self._restarts:
            return found
        code = int(state["ExitCode"])
        after = f"{time.monotonic() - self._begun:.0f} s after start"
        what = f"{name} {_stopped(code)}, {after}"
        if restarts != self._restarts:
            what = f"{name} was restarted by the engine {after}, it does not stay up"
        failure = self._failure(what, code, bool(state.get("OOMKilled")), restarts, _CORRECT)
        if self._engine_lost:
            told = f"{what}; the engine itself went down meanwhile"
            raise GateDisturbed(msgspec.structs.replace(failure, what=told, do="apply again"))
        raise ModelNotServing(failure)

    def _inspected(self) -> dict[str, Any] | None:
        while True:
            try:
                return self._engine.container(self._wait.container)
            except (EngineLost, EngineSilent) as error:
                self._engine_lost = self._engine_lost or isinstance(error, EngineLost)
                self._pause(error.what)

    def _pause(self, missing: str, do: str = "", *, answered: bool = False) -> None:
        """Wait for the next look, showing life; raises at the deadline, saying what is `missing` and, where
        the playbook does not know, what to `do`. `answered`: the model has said why."""
        if self._deadline.past:
            told = f"does not serve after {self._deadline_s} s: {missing}"
            raise self._verdict(told, do or _LONGER, answered=answered)
        # Told also when it is the same: that we still wait is news, and the caller may want to stop.
        self._last_line = last_words(self._log(_LIVE_LINES)) or self._last_line
        self._alive(self._last_line)
        self._sleep(_POLL_S[min(self._polls, len(_POLL_S) - 1)])
        self._polls += 1

    def _verdict(self, told: str, do: str, *, answered: bool) -> ModelNotServing:
        """On a model that runs and does not serve. What hangs in silence is told by its last words."""
        what = self._redact(f"{self._wait.container} {told}")
        failure = self._failure(what, None, False, self._restarts or 0, do)
        if not failure.cause and not answered and (said := last_words(failure.log)):
            failure = msgspec.structs.replace(
                failure, cause=f"it still loads, or hangs; the last it said: {said}"
            )
        return ModelNotServing(failure)

    def _failure(self, what: str, exit_code: int | None, oom: bool, restarts: int, otherwise: str) -> Failure:
        """What was seen; what to do is `otherwise` where no rule of the playbook fits."""
        log = self._log(_READ_LINES)
        cause, do = diagnose(self._wait.diagnose, exit_code, oom, log)
        return Failure(
            what=what,
            cause=cause,
            do=do or otherwise,
            log=shown(log, _SHOWN_LINES),
            exit_code=exit_code,
            oom=oom,
            restarts=restarts,
        )

    def _log(self, tail: int) -> list[str]:
        """The container's last lines, redacted; none where the engine does not give them."""
        try:
            return [self._redact(line) for line in self._engine.logs(self._wait.container, tail=tail)]
        except EngineError:
            return []


def _address(inspected: dict[str, Any], wait: Wait) -> tuple[str, int]:
    """Where to ask. A container that does not publish (yet) is asked at its own address: behind the
    published port another one, the old one, would answer for it."""
    settings = inspected["NetworkSettings"]
    bindings = (settings.get("Ports") or {}).get(f"{wait.gate.port}/tcp") or ()
    if any(binding["HostPort"] == str(wait.port) for binding in bindings):
        return ("127.0.0.1" if wait.address in _EVERYWHERE else wait.address), wait.port
    own = [network.get("IPAddress") for network in (settings.get("Networks") or {}).values()]
    return next((address for address in own if address), wait.address), wait.gate.port


def _asks_instead(check: Check, answer: Answer) -> bool:
    said = answer.body.decode(errors="replace")
    return check.instead is not None and re.search(check.instead_when or "", said) is not None


def _stopped(exit_code: int) -> str:
    """How it ended, with the signal's name where one ended it."""
    if exit_code == 0:
        return "stopped by itself (exit code 0)"
    try:
        return f"stopped with {signal.Signals(exit_code - 128).name}"
    except ValueError:
        return f"stopped with exit code {exit_code}"
