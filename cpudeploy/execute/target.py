"""A real host as a `Target`: each operation done through its connection and its engine.

The only place where secret references become values. Nothing it tells or raises carries one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from ..errors import ConnectionLost, EngineError, OperationFailed
from ..probe import probe
from ..secrets import Secrets
from ..transport.base import Connection
from ..types import operation as op
from ..types.base import SecretRef
from ..types.event import Event, Note, Progress
from ..types.facts import Facts, Question
from ..types.names import DEPLOYMENT_LABEL, RELEASE_LABEL
from ..types.outcome import ChangeStatus, HostStatus
from ..types.plan import Change, Plan
from ..types.resolved import Place
from ..types.safety import InFlight
from .assign_json import assign_json
from .change import Tell
from .deadline import Due
from .describe import describe
from .drain import drain
from .engine import EngineClient
from .failure import ScriptFailed
from .fence import Fenced, or_locked
from .fetch import fetch
from .gate import HealthGate
from .guard import arm_guard, commit_guard, settle_guards
from .hold import hold_back
from .host_record import keep_claims
from .json_file import keep_json
from .lease import Lease, take_lease
from .merge_json import merge_json
from .pull import pull_image
from .record import prove, write_record
from .removal import remove_network, remove_volume

_CLOSE_S = 5.0
"""Seconds to wait for the host's word that it is free, where nobody waits for more than the end."""
_LAST_LINES = 15
_REPORT_S = 30
"""Seconds beyond the deadline of a gate, to read what its container says."""


class HostTarget:
    """One host of one plan. `questions`: what the plan's fingerprints need beside the usual facts.
    `command`: what it is opened for, told to others who want the host. `reconnect`: a second connection to
    it, for guards that are taken back over a fresh one.

    The connection is closed with the target. Locked, everything goes through a fence.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        plan: Plan,
        secrets: Secrets,
        questions: Sequence[Question] = (),
        command: str = "apply",
        reconnect: Callable[[], Connection] | None = None,
    ) -> None:
        self._bare = connection
        self._deployment = plan.deployment
        self._registries = {registry.scope: registry for registry in plan.registries}
        self._secrets = secrets
        self._questions = tuple(questions)
        self._command = command
        self._reconnect = reconnect
        self._lease: Lease | None = None
        self._in_flight: InFlight | None = None
        self._closed = False
        self._connection = connection
        self._engine = EngineClient(connection.dial_engine)

    def lock(self, plan: str) -> None:
        """Take the host's lease, and work behind its fence from now on. Raises Locked."""
        lease = take_lease(self._bare, command=self._command, deployment=self._deployment, plan=plan)
        self._lease = lease
        self._work_through(Fenced(self._bare, lease))

    def unlock(self) -> None:
        """Give it back. Guards that are still armed are fired first."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._work_through(self._bare)
            lease.release()

    def settle(self) -> None:
        """Have guards put back what they guard, and forget what was in flight."""
        lease = self._leased()
        with or_locked(lease):
            for name, rc in settle_guards(self._connection).items():
                lease.audit(event="settled", guard=name, rc=rc)

    def begin(self, change: Change) -> None:
        """Note that a change is under way."""
        lease = self._leased()
        self._in_flight = InFlight(
            deployment=self._deployment,
            plan=lease.about.plan,
            change=change.id,
            subject=change.subject,
            holder=lease.about.holder,
        )
        lease.begin(self._in_flight)

    def end(self, change: Change, status: ChangeStatus) -> None:
        """Note that it is over."""
        self._in_flight = None
        self._leased().end(change.id, status)

    def finish(self, status: HostStatus, *, used: bool) -> None:
        """Note how the plan ended here."""
        self._leased().finish(status, used=used)

    def facts(self) -> Facts:
        """The host as it is now."""
        with self._ours():
            return probe(self._connection, self._questions)

    def close(self) -> None:
        """Give the host back and close the connection; safe to repeat, and while another thread works here:
        what that does fails with ConnectionLost."""
        self._closed = True
        self._engine.close()  # before guards put back what may be under way
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(_CLOSE_S)
        self._bare.close()

    def _work_through(self, connection: Connection) -> None:
        self._engine.close()
        self._connection = connection
        self._engine = EngineClient(connection.dial_engine)

    def _leased(self) -> Lease:
        lease = self._lease
        if self._closed:
            raise self._let_go()
        if lease is None:
            raise OperationFailed("nobody holds this host's lease", where=self._bare.host.name)
        return lease

    def _let_go(self) -> ConnectionLost:
        return ConnectionLost("this host was let go", where=self._bare.host.name, do="apply again")

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """What fails inside because the lease was lost is Locked; because we were closed, ConnectionLost."""
        lease = self._lease
        if self._closed:
            raise self._let_go()
        try:
            with nullcontext() if lease is None else or_locked(lease):
                yield
        except Exception:
            if self._closed:
                raise self._let_go() from None
            raise

    def perform(self, operation: op.Operation, tell: Tell) -> None:
        """Do one operation. Events lack host and change: the caller knows those."""
        tell = self._redacting(tell)
        with self._ours():
            if self._lease is not None and self._in_flight is not None:
                self._lease.at(msgspec.structs.replace(self._in_flight, operation=operation.id))
            self._perform(operation, tell)

    def _perform(self, operation: op.Operation, tell: Tell) -> None:
        due = Due(describe(operation), operation.deadline_s)
        match operation:
            case op.Engine():
                with self._engine.within(due):
                    self._request(operation, tell)
            case op.Script():
                self._script(operation, tell)
            case op.Put(content=content):
                text = f"{self._value(content)}\n" if isinstance(content, SecretRef) else content
                self._connection.put(
                    operation.path,
                    text.encode(),
                    mode=operation.mode,
                    owner=operation.owner,
                    deadline_s=operation.deadline_s,
                )
            case op.KeepJson():
                keep_json(self._connection, operation)
            case op.MergeJson():
                merge_json(self._connection, operation)
            case op.AssignJson():
                assign_json(self._connection, operation)
            case op.Claim() | op.Disclaim():
                keep_claims(self._connection, operation)
            case op.Fetch():
                progress, note = _bytes(operation.id, tell), _notes(tell)
                fetch(self._connection, operation, self._secrets, progress, note)
            case op.Wait():
                with self._engine.within(Due(describe(operation), operation.deadline_s + _REPORT_S)):
                    self._wait(operation, tell)
            case op.Record():
                write_record(self._connection, operation, self._secrets, due)
            case op.Drain():
                with self._engine.within(Due(describe(operation), operation.deadline_s + _REPORT_S)):
                    self._drain(operation, tell)
            case op.Prove():
                prove(self._connection, operation, due)
            case op.HoldBack():
                hold_back(self._connection, operation, self._secrets, due)
            case op.GuardArm():
                change = self._in_flight.change if self._in_flight else ""
                arm_guard(self._connection, operation, self._leased(), change)
            case op.GuardCommit():
                self._commit(operation)

    def _commit(self, operation: op.GuardCommit) -> None:
        lease = self._leased()
        if not operation.fresh:
            commit_guard(self._connection, operation)
        elif self._reconnect is None:
            raise OperationFailed(
                f"guard {operation.guard} needs a fresh connection, and there is no way to one"
            )
        else:
            fresh = self._reconnect()
            try:
                commit_guard(Fenced(fresh, lease), operation)
            finally:
                fresh.close()

    def _request(self, operation: op.Engine, tell: Tell) -> None:
        """One request to the engine. What does not carry our mark is left alone."""
        engine, request = self._engine, operation.request
        match request:
            case op.PullImage():
                pull_image(engine, request, self._login, _bytes(operation.id, tell), _notes(tell))
            case op.CreateContainer(container=name, spec=spec, references=references, labels=labels):
                for warning in engine.create(name, spec, references, labels):
                    tell(Note(host="", change="", text=f"engine: {warning}", level="warning"))
            case op.StartContainer(container=name):
                self._require_ours(name)
                engine.start(name)
            case op.StopContainer(container=name, grace_s=grace_s):
                self._require_ours(name)
                engine.stop(name, grace_s)
            case op.RenameContainer(container=name, to=to):
                self._require_ours(name)
                engine.rename(name, to)
            case op.RemoveContainer(container=name, release=release):
                self._require_ours(name)
                if not release or self._release(name) == release:
                    engine.remove(name)
            case op.RestartPolicy(container=name, policy=policy):
                self._require_ours(name)
                engine.restart_policy(name, policy)
            case op.CreateNetwork():
                engine.create_network(
                    request.network, subnet=request.subnet, internal=request.internal, labels=request.labels
                )
            case op.ConnectNetwork(network=network, container=name):
                self._require_ours(name)
                engine.connect(network, name)
            case op.DisconnectNetwork(network=network, container=name):
                self._require_ours(name)
                engine.disconnect(network, name)
            case op.RemoveNetwork(network=network):
                remove_network(engine, network, self._deployment)
            case op.RemoveVolume():
                remove_volume(engine, request, self._deployment)
            case op.RemoveImage(reference=reference):
                engine.remove_image(reference)

    def _require_ours(self, name: str) -> None:
        found = self._engine.container(name)  # one question: between two of these nobody may be serving
        if found is not None and _label(found, DEPLOYMENT_LABEL) != self._deployment:
            raise EngineError(
                f"container {name} is not of deployment {self._deployment}; it is left alone",
                do=f"rename or remove {name} yourself, then plan again",
            )

    def _release(self, name: str) -> str | None:
        found = self._engine.container(name)
        return None if found is None else _label(found, RELEASE_LABEL)

    def _script(self, operation: op.Script, tell: Tell) -> None:
        if hashlib.sha256(operation.text.encode()).hexdigest() != operation.sha256:
            raise OperationFailed(
                f"script {operation.script} in the plan is not what was planned (checksum differs)",
                do="plan again",
            )
        lines: list[str] = []

        def line(text: str) -> None:
            lines.append(self._secrets.redact(text))
            tell(Progress(host="", change="", operation=operation.id, text=text))

        done = self._connection.run(
            operation.text, args=operation.args, deadline_s=operation.deadline_s, on_line=line
        )
        if done.rc != 0:
            errors = self._secrets.redact(done.stderr).splitlines()
            told = [text for text in (*lines, *errors) if text.strip()]
            raise ScriptFailed(
                f"script {operation.script} ended with exit code {done.rc}", log=told[-_LAST_LINES:]
            )

    def _wait(self, operation: op.Wait, tell: Tell) -> None:
        key = None if operation.api_key is None else self._value(operation.api_key)

        def alive(line: str) -> None:
            tell(Progress(host="", change="", operation=operation.id, text=line))

        dial = self._connection.dial_tcp
        HealthGate(self._engine, dial, operation, key, alive, self._secrets.redact).pass_or_raise()

    def _drain(self, operation: op.Drain, tell: Tell) -> None:
        key = None if operation.api_key is None else self._value(operation.api_key)

        def alive(text: str) -> None:
            tell(Progress(host="", change="", operation=operation.id, text=text))

        drain(self._engine, self._connection.dial_tcp, operation, key, alive, _notes(tell))

    def _value(self, ref: SecretRef) -> str:
        return self._secrets.get(ref).reveal()

    def _login(self, place: Place) -> dict[str, str] | None:
        registry = self._registries.get(place.login or "")
        if registry is None or registry.username is None or registry.password is None:
            return None
        return {
            "username": registry.username,
            "password": self._value(registry.password),
            "serveraddress": place.registry,
        }

    def _redacting(self, tell: Tell) -> Tell:
        def told(event: Event) -> None:
            if isinstance(event, Progress | Note):
                event = msgspec.structs.replace(event, text=self._secrets.redact(event.text))
            tell(event)

        return told


def _label(inspected: dict[str, Any], label: str) -> str | None:
    found: str | None = (inspected["Config"].get("Labels") or {}).get(label)
    return found


def _bytes(operation: str, tell: Tell) -> Callable[..., None]:
    def progress(done: int, total: int, text: str = "") -> None:
        tell(Progress(host="", change="", operation=operation, done=done, total=total, text=text))

    return progress


def _notes(tell: Tell) -> Callable[[str], None]:
    def note(text: str) -> None:
        tell(Note(host="", change="", text=text, level="warning"))

    return note
