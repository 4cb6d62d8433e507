"""A host in memory: operations change a facts document by the rules their docstrings state.

Used to prove that plans converge and that the runner does what it says. Knows nothing of plans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

from cpudeploy.errors import CpudeployError, EngineError, GateFailed, Locked, OperationFailed
from cpudeploy.types import operation as op
from cpudeploy.types.base import digest, from_data, to_data
from cpudeploy.types.event import Event, Progress
from cpudeploy.types.facts import Engine, Facts, Mark
from cpudeploy.types.outcome import ChangeStatus, HostStatus
from cpudeploy.types.plan import Change
from cpudeploy.types.release import Release, identity, read_release
from cpudeploy.types.safety import Guard, Hold, InFlight, Lease
from tests.factories import container, facts
from tests.simulated_prune import prune_records, prune_weights, remove_image


class Killed(BaseException):
    """The controller died: no handler of the program sees this."""


class SimulatedHost:
    """One host. `failing`: served names that never pass their gate; `fail[operation id]` is raised
    instead of doing it, `before[operation id]` called first; `log` has what was asked, in order."""

    def __init__(self, found: Facts | None = None, *, failing: Collection[str] = ()) -> None:
        self.state: dict[str, Any] = to_data(found or facts("h1"))
        self.failing = set(failing)
        self.fail: dict[str, CpudeployError] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.log: list[str] = []
        self.die_after: int | None = None
        self.probes = 0
        self.closed = threading.Event()
        self.holder = ""
        self.plan = ""
        self.armed: dict[str, op.GuardArm] = {}
        self.stuck: set[str] = set()
        """Ids of containers whose ports are taken though nobody reaches them there."""

    def lock(self, plan: str) -> None:
        lease = self.state.get("lease")
        if lease is not None and not lease["expired"]:
            raise Locked(f"{lease['holder']} is changing it")
        self.plan = plan
        self.state["lease"] = to_data(
            Lease(
                holder="me",
                command="apply",
                deployment="rag",
                plan=plan,
                since_s=0,
                silent_s=0,
                expired=False,
            )
        )

    def unlock(self) -> None:
        self.state["lease"] = None

    def die(self) -> None:
        """The controller is gone: what it left on the host does what it is there for."""
        self.unlock()
        for name in list(self.armed):
            self.fire(name)

    def fire(self, guard: str) -> None:
        """A guard puts back what it guards."""
        arm = self.armed.pop(guard)
        self._script(arm.revert)
        self.state["guards"][guard] = {**self.state["guards"][guard], "state": "fired", "rc": 0}

    def settle(self) -> None:
        for name in list(self.armed):
            self.fire(name)
        self.state["guards"] = {}
        self.state["in_flight"] = None

    def begin(self, change: Change) -> None:
        if self.die_after is not None and len(self.log) >= self.die_after:
            raise Killed
        found = InFlight(
            deployment="rag", plan=self.plan, change=change.id, subject=change.subject, holder="me"
        )
        self.state["in_flight"] = to_data(found)

    def end(self, change: Change, status: ChangeStatus) -> None:
        if self.die_after is not None and len(self.log) >= self.die_after:
            raise Killed
        self.state["in_flight"] = None

    def finish(self, status: HostStatus, *, used: bool) -> None:
        if self.state["lease"] is None:
            raise OperationFailed("nobody holds this host's lease")
        if used:
            self.state["used_plans"].setdefault("rag", []).append(self.plan)

    def facts(self) -> Facts:
        self.probes += 1
        return from_data(self.state, Facts)

    def close(self) -> None:
        self.unlock()
        self.closed.set()

    def perform(self, operation: op.Operation, tell: Callable[[Event], None]) -> None:
        if self.die_after is not None and len(self.log) >= self.die_after:
            raise Killed
        self.log.append(operation.id)
        if self.state["in_flight"] is not None:
            self.state["in_flight"]["operation"] = operation.id
        if operation.id in self.before:
            self.before[operation.id]()
        tell(Progress(host="", change="", operation=operation.id, text="at it"))
        if operation.id in self.fail:
            raise self.fail[operation.id]
        match operation:
            case op.Engine(request=request):
                self._engine(request)
            case op.Script():
                self._script(operation)
            case op.Put(path=path, content=content):
                size = len(content) if isinstance(content, str) else 1
                file = {"kind": "file", "size": size, "mode": "0600", "owner": "root", "sha256": "x"}
                self.state["files"][path] = file
            case op.Fetch(file=file):
                blob = {"size": file.size, "inode": int(file.sha256[:8], 16), "verified": True}
                self.state["weights"]["blobs"][file.sha256] = blob
            case op.Record():
                self._record(operation)
            case op.Prove(deployment=deployment, release=release, container=container):
                known = self.state["releases"].get(deployment, {}).get(release)
                if known is not None:
                    known["proven"] = sorted({*known["proven"], container})
                proven = read_release(known)
                its = proven.instances.get(container) if proven else None
                holds = self.state["held"].get(deployment, {})
                if its is None or holds.get(container, {}).get("wanted") == identity(its):
                    holds.pop(container, None)
            case op.HoldBack(deployment=deployment, container=container):
                hold = Hold(
                    wanted=operation.wanted,
                    release=operation.release,
                    at="2026-11-30T00:00:00Z",
                    what=operation.what,
                )
                self.state["held"].setdefault(deployment, {})[container] = to_data(hold)
            case op.Drain():
                pass
            case op.GuardArm(guard=guard):
                self.armed[guard] = operation
                self.state["guards"][guard] = to_data(
                    Guard(
                        state="armed",
                        deployment="rag",
                        plan=self.plan,
                        change=(self.state["in_flight"] or {}).get("change", ""),
                        left_s=30,
                    )
                )
            case op.GuardCommit(guard=guard, lenient=lenient):
                if guard not in self.armed and not lenient:
                    raise OperationFailed(f"guard {guard} put back what it guards")
                self.armed.pop(guard, None)
                self.state["guards"].pop(guard, None)
            case op.Wait(container=container, gate=gate):
                if not self.container(container)["running"]:
                    raise GateFailed(f"{container} is not running")
                if any(check.equals in self.failing for check in gate.checks):
                    raise GateFailed(f"{container} never got ready")
            case _:
                raise AssertionError(f"the simulated host does not know {operation}")

    def container(self, name: str) -> dict[str, Any]:
        """Facts of a container that must be there."""
        if name not in self.state["containers"]:
            raise EngineError(f"no such container: {name}", status=404)
        found: dict[str, Any] = self.state["containers"][name]
        return found

    def add(self, name: str, release: str, *, running: bool = True, policy: str = "unless-stopped") -> None:
        """A container of ours as an earlier apply left it."""
        mark = Mark(schema=1, deployment="rag", model="qwen", instance=0, release=release)
        self._put_container(name, mark, running=running, restart_policy=policy)

    def _put_container(self, name: str, mark: Mark, **fields: Any) -> None:
        found = container(mark.model, release=mark.release, id=f"id-{name}-{mark.release}", mark=mark)
        self.state["containers"][name] = {**to_data(found), **fields}

    def _script(self, operation: op.Script) -> None:
        args = operation.args
        if operation.script == "install-docker-debian":
            self.state["engine"] = to_data(Engine(state="running", version="26.1.5"))
        elif operation.script == "link-tree":
            blobs = self.state["weights"]["blobs"]
            files = [line.split(" ", 1) for line in args["files"].splitlines()]
            self.state["weights"]["trees"][args["tree"]] = {name: blobs[sha]["inode"] for sha, name in files}
        elif operation.script == "claim-weights":
            trees = self.state["weights"]["refs"].setdefault(f"{args['deployment']}.fetched", [])
            if args["tree"] not in trees:
                trees.append(args["tree"])
            claims = self.state["weights"]["claims"].setdefault(args["deployment"], [])
            shas = [line.partition(" ")[0] for line in args["files"].splitlines()]
            claims += [sha for sha in shas if sha not in claims]
        elif operation.script == "prune-records":
            prune_records(self.state, args)
        elif operation.script == "prune-weights":
            prune_weights(self.state, args)
        elif operation.script == "forget":
            self.state["releases"].pop(args["deployment"], None)
            refs = self.state["weights"]["refs"]
            for name in [name for name in refs if name.partition(".")[0] == args["deployment"]]:
                del refs[name]
        elif operation.script == "guard-container":
            self._put_back(args)
        elif operation.script not in ("forget-secrets", "start-docker"):
            raise AssertionError(f"the simulated host does not know the script {operation.script}")

    def _put_back(self, args: dict[str, str]) -> None:
        """As the script: a new one that is proven stays, else what was kept serves again."""
        containers, name, old = self.state["containers"], args["name"], args["old"]
        new = (args["deployment"], args["release"])

        def is_new(each: str) -> bool:
            mark = (containers.get(each) or {}).get("mark")
            return mark is not None and (mark["deployment"], mark["release"]) == new

        if is_new(name) and containers[name]["restart_policy"] != "no":
            return
        for each in (args["next"], name):
            if is_new(each):
                del containers[each]
        if name not in containers:
            if old not in containers:
                return
            containers[name] = containers.pop(old)
        for network in args["networks"].split():
            self._connect(network, name)
        self._start(name)

    def _record(self, operation: op.Record) -> None:
        releases = self.state["releases"].setdefault(operation.deployment, {})
        known = read_release(releases.get(operation.release))  # None also for one that is damaged
        release = Release(
            id=operation.release,
            deployment=operation.deployment,
            host=operation.host,
            origin=operation.origin,
            created="2026-11-30T00:00:00Z",
            instances={**(known.instances if known else {}), **operation.instances},
            by=operation.by,
            proven=tuple(sorted({*operation.proven, *(known.proven if known else ())})),
        )
        releases[operation.release] = to_data(release)
        trees = sorted({each.tree for each in release.instances.values() if each.tree})
        if trees:
            self.state["weights"]["refs"][f"{operation.deployment}.{operation.release}"] = trees

    def _engine(self, request: op.EngineRequest) -> None:
        containers, networks = self.state["containers"], self.state["networks"]
        match request:
            case op.PullImage(places=places):
                digest, reference = places[0].digest, places[0].reference
                image = {"id": digest, "references": [reference], "size": 1, "platform": "linux/amd64"}
                self.state["images"][digest] = image
            case op.RemoveImage(reference=reference):
                remove_image(self.state, reference)
            case op.CreateNetwork(network=name, subnet=subnet, internal=internal, labels=labels):
                ours = labels["io.cpudeploy.deployment"]
                networks[name] = {
                    "id": name,
                    "driver": "bridge",
                    "internal": internal,
                    "subnets": [subnet],
                    "deployment": ours,
                }
            case op.RemoveNetwork(network=name):
                networks.pop(name, None)
            case op.RemoveVolume(volume=name, unmarked=unmarked):
                self._remove_volume(name, unmarked=unmarked)
            case op.CreateContainer():
                self._create(request)
            case op.StartContainer(container=name):
                self._start(name)
            case op.StopContainer(container=name):
                if name in containers:
                    containers[name].update(running=False, status="exited")
                    self.stuck.discard(containers[name]["id"])
            case op.RenameContainer(container=name, to=to):
                if name in containers and to in containers:
                    raise EngineError(f"{to} is taken", status=409)
                if name in containers:
                    containers[to] = containers.pop(name)
                self.container(to)
            case op.RemoveContainer(container=name, release=release):
                if name in containers and release in ("", containers[name]["mark"]["release"]):
                    del containers[name]
            case op.RestartPolicy(container=name, policy=policy):
                self.container(name)["restart_policy"] = policy
            case op.ConnectNetwork(network=network, container=name):
                self._connect(network, name)
            case op.DisconnectNetwork(network=network, container=name):
                if name in containers:
                    self._disconnect(network, containers[name])
            case _:
                raise AssertionError(f"the simulated engine does not know {request}")

    def _remove_volume(self, name: str, *, unmarked: bool) -> None:
        volumes, deployment = self.state["volumes"], name.partition("_")[0]
        if name not in volumes:
            return
        label = volumes[name]["deployment"]
        if label != deployment and not (unmarked and not label):
            raise EngineError(f"volume {name} is not of deployment {deployment}; it is left alone")
        users = [each for each, found in self.state["containers"].items() if name in found["volumes"]]
        if users:
            raise OperationFailed(f"volume {name} is in use by {', '.join(users)}")
        del volumes[name]

    def _create(self, request: op.CreateContainer) -> None:
        labels = {key.removeprefix("io.cpudeploy."): value for key, value in request.labels.items()}
        mark = Mark(
            schema=int(labels.get("schema", "1")),
            deployment=labels["deployment"],
            model=labels.get("model", "qwen"),
            instance=int(labels.get("instance", "0")),
            release=labels["release"],
        )
        found = self.state["containers"].get(request.container)
        if found is not None:
            if found["mark"] != to_data(mark):
                raise EngineError(f"{request.container} is taken", status=409)
            return
        publish = to_data(request.spec.publish)
        volumes = [mount.source for mount in request.spec.mounts if "/" not in mount.source]
        for name in volumes:
            self.state["volumes"].setdefault(name, {"deployment": mark.deployment})
        self._put_container(
            request.container,
            mark,
            running=False,
            status="created",
            restart_policy="no",
            image=request.spec.image,
            mounts=[mount.source for mount in request.spec.mounts],
            volumes=volumes,
            command=digest(request.spec.command),
            cpuset=request.spec.cpuset,
            cpuset_mems=request.spec.cpuset_mems,
            memory=request.spec.memory,
            memory_swap=request.spec.memory,
            publish=publish,
            networks=dict.fromkeys(request.spec.networks, ""),
            network_ids={name: self.state["networks"][name]["id"] for name in request.spec.networks},
        )

    def _start(self, name: str) -> None:
        found = self.container(name)
        for network, id in found["network_ids"].items():
            if self.state["networks"].get(network, {}).get("id") != id:
                raise EngineError(f"network {network} not found", status=404)
        self._refuse_taken(name, found["networks"])
        found.update(running=True, status="running")

    def _connect(self, network: str, name: str) -> None:
        found = self.container(name)
        if network not in self.state["networks"]:
            raise EngineError(f"network {network} not found", status=404)
        if network in found["networks"]:
            return
        if found["running"]:
            self._refuse_taken(name, [network])
        found["networks"][network] = ""
        found["network_ids"][network] = self.state["networks"][network]["id"]

    def _disconnect(self, network: str, found: dict[str, Any]) -> None:
        """As engines before 23 do: ports go on to a network that is left, and are held there."""
        open_before = found["running"] and self._opens(found["networks"])
        found["networks"].pop(network, None)
        found["network_ids"].pop(network, None)
        held = (found["id"] in self.stuck or open_before) and not self._opens(found["networks"])
        self.stuck.discard(found["id"])
        if held and found["networks"]:
            self.stuck.add(found["id"])

    def publishes(self, name: str) -> bool:
        """Whether a container's ports are open: it runs, in a network that is not internal."""
        found = self.container(name)
        return found["running"] and self._opens(found["networks"])

    def _opens(self, networks: Collection[str]) -> bool:
        known = self.state["networks"]
        return any(name in known and not known[name]["internal"] for name in networks)

    def _refuse_taken(self, name: str, networks: Collection[str]) -> None:
        """An engine opens a port when the container that publishes it comes to a network that can."""
        if not self._opens(networks):
            return
        own = self.container(name)["publish"]
        for other, found in self.state["containers"].items():
            taken = any(port in found["publish"] for port in own)
            if other != name and taken and (self.publishes(other) or found["id"] in self.stuck):
                raise EngineError(f"port is already allocated by {other}", status=500)
