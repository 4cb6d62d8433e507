"""A host's share of engine settings, in memory: the operations of these steps, as their docstrings state them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cpudeploy.execute.host_file import sha256_of
from cpudeploy.execute.merge_json import merged
from cpudeploy.plan import matches
from cpudeploy.steps.context import HostContext
from cpudeploy.types import operation as op
from cpudeploy.types.base import Unknown, to_json
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.facts import DaemonFile, Engine, Facts, File
from cpudeploy.types.plan import Change
from cpudeploy.types.resolved import Resolved
from cpudeploy.types.shared import HostRecord
from tests.factories import facts


class Settings:
    """`daemon`: the text of daemon.json. `listed`: what the engine has read of it; `reloads` counts."""

    def __init__(self, daemon: str | None = None, *, use: str = "install") -> None:
        self.daemon = None if daemon is None else daemon.encode()
        self.listed = self._in_file()
        self.record: HostRecord | Unknown = HostRecord()
        self.files: dict[str, str] = {}
        self.reloads = 0
        self.use = use
        self.state: Any = "running"

    def _in_file(self) -> list[str]:
        return json.loads(self.daemon or "{}").get("insecure-registries", [])

    def facts(self) -> Facts:
        file = self.daemon and DaemonFile(sha256=sha256_of(self.daemon), insecure=tuple(self._in_file()))
        engine = Engine(state=self.state, insecure=dict.fromkeys(self.listed, True), daemon=file or None)
        files = {
            path: File(size=1, mode="0644", owner="root", sha256=sha256_of(text.encode()))
            for path, text in self.files.items()
        }
        return facts(engine=engine, files=files, host_record=self.record)

    def context(self, deployment: Deployment) -> HostContext:
        host = msgspec.structs.replace(deployment.hosts["one"], engine=self.use)
        return HostContext(deployment=deployment, host=host, facts=self.facts(), resolved=Resolved())

    def document(self) -> Any:
        return msgspec.json.decode(to_json(self.facts()))

    def carry_out(self, *changes: Change) -> None:
        """Every operation, twice; the fingerprints must hold."""
        for change in changes:
            assert matches(change.before, self.document()) == ()
            assert matches(change.after, self.document()) != ()
            self.perform(*change.operations)
            assert matches(change.after, self.document()) == ()

    def perform(self, *operations: op.Operation) -> None:
        for operation in operations:
            self._perform(operation)
            self._perform(operation)

    def _perform(self, operation: op.Operation) -> None:
        assert isinstance(self.record, HostRecord)
        match operation:
            case op.MergeJson():
                self.daemon = merged(self.daemon, operation)
            case op.Claim(keys=keys):
                self.record = self.record.claimed(keys)
            case op.Disclaim(deployment=deployment, keys=keys):
                self.record = self.record.released(deployment, keys)
            case op.Put(path=path, content=content):
                self.files[path] = str(content)
            case op.Script(script="remove-files", args=args):
                for path in args["paths"].splitlines():
                    self.files.pop(path, None)
            case op.Script(script="reload-docker", args=args):
                self._reload(args["present"].split(), args["absent"].split())
            case _:
                raise AssertionError(operation)

    def _reload(self, present: list[str], absent: list[str]) -> None:
        if set(present) <= set(self.listed) and not set(absent) & set(self.listed):
            return
        self.reloads += 1
        if self.daemon is not None and "insecure-registries" in json.loads(self.daemon):
            self.listed = self._in_file()  # a list that is not there changes nothing
        assert set(present) <= set(self.listed) and not set(absent) & set(self.listed)
