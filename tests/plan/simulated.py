"""A host in memory: facts as a document, operations applied to it. For proving that plans converge.

Speaks the same operations as a real target and keeps the same promises (repeatable, absent is done);
models can be told to fail their gate. Knows nothing of plans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection

import msgspec

from cpudeploy.errors import EngineError, GateFailed
from cpudeploy.types import operation as op
from cpudeploy.types.base import to_data
from cpudeploy.types.event import Event
from cpudeploy.types.facts import Blob, Container, Engine, Facts, Image, Mark, Network
from cpudeploy.types.release import Release


class SimulatedHost:
    """Facts in, operations interpreted. `failing`: served names that never pass their gate."""

    def __init__(self, facts: Facts, failing: Collection[str] = ()) -> None:
        self._facts = facts
        self.failing = set(failing)
        self.started: list[str] = []

    def facts(self) -> Facts:
        return self._facts

    def close(self) -> None:
        pass

    def perform(self, operation: op.Operation, tell: Callable[[Event], None]) -> None:
        if isinstance(operation, op.Engine):
            self._engine(operation.request)
        elif isinstance(operation, op.Record):
            self._record(operation)
        elif isinstance(operation, op.Fetch):
            blobs = {
                **self._facts.weights.blobs,
                operation.file.sha256: Blob(size=operation.file.size, inode=7, verified=True),
            }
            self._set(weights=msgspec.structs.replace(self._facts.weights, blobs=blobs))
        elif isinstance(operation, op.Script):
            self._script(operation)
        elif isinstance(operation, op.Wait):
            container = self._facts.containers.get(operation.container)
            if container is None or not container.running:
                raise GateFailed("not running")
            if operation.gate.checks[1].equals in self.failing:
                raise GateFailed("never ready")
        elif not isinstance(operation, op.Put):
            raise AssertionError(f"the simulated host does not know {operation}")

    def _script(self, operation: op.Script) -> None:
        if operation.script == "install-docker-debian":
            self._set(engine=Engine(state="running", version="20.10.24", root="/var/lib/docker"))
        elif operation.script == "link-tree":
            names = [line.split(" ", 1)[1] for line in operation.args["files"].splitlines()]
            trees = {**self._facts.weights.trees, operation.args["tree"]: dict.fromkeys(names, 7)}
            self._set(weights=msgspec.structs.replace(self._facts.weights, trees=trees))
        elif operation.script == "forget":
            releases = {k: v for k, v in self._facts.releases.items() if k != operation.args["deployment"]}
            self._set(releases=releases)

    def _record(self, operation: op.Record) -> None:
        release = Release(
            id=operation.release,
            deployment=operation.deployment,
            host=operation.host,
            origin=operation.origin,
            created="2026-11-30T00:00:00Z",
            instances=operation.instances,
        )
        mine = {**self._facts.releases.get(operation.deployment, {}), operation.release: to_data(release)}
        self._set(releases={**self._facts.releases, operation.deployment: mine})

    def _engine(self, request: op.EngineRequest) -> None:
        if isinstance(request, op.PullImage):
            place = request.places[0]
            image = Image(id="sha256:cfg", references=(place.reference,), size=9, platform=request.platform)
            self._set(images={**self._facts.images, place.digest: image})
        elif isinstance(request, op.CreateNetwork):
            network = Network(
                id=request.network,
                driver="bridge",
                internal=request.internal,
                subnets=(request.subnet,),
                deployment=request.labels["io.cpudeploy.deployment"],
            )
            self._set(networks={**self._facts.networks, request.network: network})
        elif isinstance(request, op.RemoveNetwork):
            self._set(networks={k: v for k, v in self._facts.networks.items() if k != request.network})
        elif isinstance(request, op.CreateContainer):
            self._create(request)
        elif isinstance(request, op.StartContainer):
            self._change(request.container, running=True, status="running")
            self.started.append(request.container)
        elif isinstance(request, op.StopContainer):
            if request.container in self._facts.containers:
                self._change(request.container, running=False, status="exited")
        elif isinstance(request, op.RestartPolicy):
            self._change(request.container, restart_policy=request.policy)
        elif isinstance(request, op.RenameContainer):
            self._rename(request)
        elif isinstance(request, op.RemoveContainer):
            self._remove(request)
        else:
            raise AssertionError(f"the simulated engine does not know {request}")

    def _create(self, request: op.CreateContainer) -> None:
        labels = {key.removeprefix("io.cpudeploy."): value for key, value in request.labels.items()}
        mark = Mark(
            schema=int(labels["schema"]),
            deployment=labels["deployment"],
            model=labels["model"],
            instance=int(labels["instance"]),
            release=labels["release"],
        )
        found = self._facts.containers.get(request.container)
        if found is not None:
            if found.mark == mark:
                return
            raise EngineError(f"the name {request.container} is taken", status=409)
        if any(
            container.running and publish in container.publish
            for container in self._facts.containers.values()
            for publish in request.spec.publish
        ):
            raise EngineError("the port is taken", status=500)
        identity = hashlib.sha256(
            f"{request.container}{mark.release}{len(self.started)}".encode()
        ).hexdigest()
        container = Container(
            id=identity,
            mark=mark,
            image=request.references[0],
            image_id="sha256:cfg",
            status="created",
            running=False,
            exit_code=0,
            oom_killed=False,
            restarts=0,
            restart_policy="no",
            started_at="",
            cpuset=request.spec.cpuset,
            quota=0,
            memory=request.spec.memory,
            memory_swap=request.spec.memory,
            publish=request.spec.publish,
            networks=dict.fromkeys(request.spec.networks, ""),
        )
        self._set(containers={**self._facts.containers, request.container: container})

    def _rename(self, request: op.RenameContainer) -> None:
        containers = dict(self._facts.containers)
        if request.container not in containers:
            if request.to not in containers:
                raise EngineError(f"no such container: {request.container}", status=404)
            return
        if request.to in containers:
            raise EngineError(f"the name {request.to} is taken", status=409)
        containers[request.to] = containers.pop(request.container)
        self._set(containers=containers)

    def _remove(self, request: op.RemoveContainer) -> None:
        found = self._facts.containers.get(request.container)
        if found is None or (request.release and found.mark and found.mark.release != request.release):
            return
        self._set(containers={k: v for k, v in self._facts.containers.items() if k != request.container})

    def _change(self, name: str, **changes: object) -> None:
        if name not in self._facts.containers:
            raise EngineError(f"no such container: {name}", status=404)
        container = msgspec.structs.replace(self._facts.containers[name], **changes)
        self._set(containers={**self._facts.containers, name: container})

    def _set(self, **changes: object) -> None:
        self._facts = msgspec.structs.replace(self._facts, **changes)
