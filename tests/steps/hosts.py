"""A host's share of engine settings, in memory: the operations of these steps, as their docstrings state them."""

from __future__ import annotations

from typing import Any

import msgspec

from cpudeploy.errors import OperationFailed, StalePlan
from cpudeploy.execute.assign_json import assigned, claimed, released
from cpudeploy.execute.host_file import sha256_of
from cpudeploy.execute.json_file import document_of, json_bytes
from cpudeploy.execute.merge_json import merged
from cpudeploy.plan import matches
from cpudeploy.steps.context import HostContext
from cpudeploy.types import operation as op
from cpudeploy.types.base import Unknown, to_json
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.facts import Container, DaemonFile, Engine, Facts, File
from cpudeploy.types.operation import Script
from cpudeploy.types.plan import Change
from cpudeploy.types.resolved import Resolved
from cpudeploy.types.shared import HostRecord, setting_text
from tests.factories import facts

_INSECURE = "insecure-registries"
_SETTING = "/etc/docker/daemon.json#/"
_REMEMBERED = (_INSECURE, "debug", "labels", "live-restore", "registry-mirrors", "shutdown-timeout")
_RESET = ("max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts")


class Died(Exception):
    """The engine does not start."""


class Settings:
    """`daemon`: the text of daemon.json. `loaded`: what the engine has of it; `reloads`, `restarts` count,
    `lost` counts the times that running containers were ended. An engine refuses the setting `unknown` and
    does not start with the setting `deadly`."""

    def __init__(self, daemon: str | None = None, *, use: str = "install") -> None:
        self.daemon = None if daemon is None else daemon.encode()
        self.loaded: dict[str, Any] = self._file()
        self.record: HostRecord | Unknown = HostRecord()
        self.before: dict[str, Any] = {}
        self.files: dict[str, str] = {}
        self.kept: dict[str, Any] | None = None
        self.armed: Script | None = None
        self.reloads = self.restarts = self.lost = 0
        self.restarted_since = False
        self.use = use
        self.state: Any = "running"
        self.swarm = False
        self.containers: dict[str, Container] = {}

    def _file(self) -> dict[str, Any]:
        return document_of(self.daemon, "daemon.json")

    @property
    def listed(self) -> list[str]:
        """Registries without TLS that the engine allows now."""
        return self.loaded.get(_INSECURE, [])

    def facts(self, wanted: dict[str, Any] | None = None) -> Facts:
        claims = self.record.keys if isinstance(self.record, HostRecord) else {}
        known = {key.removeprefix(_SETTING): claim.ours for key, claim in claims.items() if _SETTING in key}
        known |= {key: setting_text(value) for key, value in (wanted or {}).items()}
        found = self._file()
        file = self.daemon is not None and DaemonFile(
            sha256=sha256_of(self.daemon),
            insecure=tuple(found.get(_INSECURE, [])),
            settings={key: setting_text(found[key]) == value for key, value in known.items() if key in found},
        )
        engine = Engine(
            state=self.state,
            insecure=dict.fromkeys(self.listed, True),
            live_restore=self.loaded.get("live-restore", False),
            swarm=self.swarm,
            daemon=file or None,
        )
        files = {
            path: File(size=1, mode="0644", owner="root", sha256=sha256_of(text.encode()))
            for path, text in self.files.items()
        }
        return facts(engine=engine, files=files, host_record=self.record, containers=self.containers)

    def context(self, deployment: Deployment) -> HostContext:
        host = msgspec.structs.replace(deployment.hosts["one"], engine=self.use)
        wanted = {"live-restore": True, **host.engine_settings}
        return HostContext(deployment=deployment, host=host, facts=self.facts(wanted), resolved=Resolved())

    def document(self, deployment: Deployment) -> Any:
        return msgspec.json.decode(to_json(self.context(deployment).facts))

    def carry_out(self, deployment: Deployment, *changes: Change) -> None:
        """Every operation, twice; the fingerprints must hold."""
        for change in changes:
            assert matches(change.before, self.document(deployment)) == ()
            assert matches(change.after, self.document(deployment)) != ()
            self.perform(*change.operations)
            assert matches(change.after, self.document(deployment)) == ()

    def perform(self, *operations: op.Operation) -> None:
        for operation in operations:
            self._perform(operation)
            self._perform(operation)

    def die(self) -> None:
        """The controller is gone: what it left on the host does what it is there for."""
        if self.armed is not None:
            self._perform(self.armed)
            self.armed = None

    def _perform(self, operation: op.Operation) -> None:
        assert isinstance(self.record, HostRecord)
        match operation:
            case op.GuardArm(revert=revert):
                self.armed = revert
            case op.GuardCommit():
                self.armed = None
            case op.KeepJson():
                self._keep(operation)
            case op.MergeJson():
                self._write(merged(self._file(), operation), operation.kept)
            case op.AssignJson():
                state = claimed(operation, (self.record, self.before), self._file())
                self.record, self.before = state
                self._write(assigned(operation, state, self._file()), operation.kept)
                if not operation.meanwhile:
                    self.record, self.before = released(operation, state)
            case op.Claim(keys=keys):
                self.record = self.record.claimed(keys)
            case op.Disclaim(deployment=deployment, keys=names):
                self.record = self.record.released(deployment, names)
            case op.Put(path=path, content=content):
                self.files[path] = str(content)
            case op.Script(script="remove-files", args=args):
                for path in args["paths"].splitlines():
                    self.files.pop(path, None)
            case op.Script(script="reload-docker", args=args):
                self._reload()
                assert set(args["present"].split()) <= set(self.listed)
                assert not set(args["absent"].split()) & set(self.listed)
            case op.Script(script="restart-docker"):
                if self.loaded != self._file() or self.state != "running":
                    self._restart()
            case op.Script(script="restore-docker", args=args):
                self._restore(args["token"])
            case op.Script(script="forget-kept"):
                self.kept = None
            case _:
                raise AssertionError(operation)

    def _keep(self, operation: op.KeepJson) -> None:
        known = self.kept
        if known and known["token"] == operation.token and sha256_of(self.daemon) in known["wrote"]:
            return
        if sha256_of(self.daemon) != operation.expected_sha256:
            raise StalePlan("changed since the plan was made")
        found = self._file()
        ways = {
            "was": self.daemon,
            "restarted": json_bytes(found | operation.restarted),
            "reloaded": json_bytes(operation.reloaded | found),
        }
        wrote = {sha256_of(ways["restarted"]), sha256_of(ways["reloaded"])}
        self.kept = {**ways, "token": operation.token, "wrote": wrote}
        self.restarted_since = False

    def _write(self, document: dict[str, Any] | None, kept: str) -> None:
        if document == self._file():
            return
        new = None if document is None else json_bytes(document)
        if kept and self.kept:
            self.kept["wrote"].add(sha256_of(new))
        self.daemon = new

    def _reload(self) -> None:
        file = self._file()
        if "unknown" in file:
            raise OperationFailed("the engine refused to reload")
        self.reloads += 1
        # What is not there changes nothing, but for a few.
        self.loaded |= {key: file[key] for key in _REMEMBERED if key in file}
        for key in _RESET:
            self.loaded.pop(key, None)
            if key in file:
                self.loaded[key] = file[key]

    def _restart(self) -> None:
        """Containers live as long as both engines, the one that ends and the one that begins, let them."""
        shielded = self.state != "running" or self.loaded.get("live-restore", False)
        file = self._file()
        self.restarts += 1
        self.restarted_since = True
        if not shielded:
            self.lost += 1
        if "deadly" in file:
            self.state = "stopped"
            raise Died
        if shielded and not file.get("live-restore", False):
            self.lost += 1
        self.state, self.loaded = "running", file

    def _restore(self, token: str) -> None:
        kept = self.kept
        if kept is None or kept["token"] != token:
            return
        if sha256_of(self.daemon) in kept["wrote"]:
            if self.restarted_since or self.state != "running":
                self.daemon = kept["restarted"]
                if self.state == "running":
                    self._reload()
                self._restart()
            self.daemon = kept["reloaded"]
            self._reload()
            self.daemon = kept["was"]
        self.kept = None
