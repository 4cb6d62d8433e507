"""A host in memory: operations change a facts document by the rules their docstrings state."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

from cpudeploy.errors import CpudeployError, EngineError
from cpudeploy.types import operation as op
from cpudeploy.types.base import from_data, to_data
from cpudeploy.types.event import Event, Progress
from cpudeploy.types.facts import Facts, Mark

NOTHING: dict[str, Any] = {
    "host": "h1",
    "os": {
        "id": "debian",
        "version": "13",
        "codename": "trixie",
        "name": "Debian 13",
        "kernel": "6.12",
        "arch": "amd64",
        "page_size": 4096,
    },
    "cpu": {"model": "EPYC", "flags": ["avx2"], "online": 4, "cores": [], "quota": None},
    "memory": {
        "total": 2**34,
        "available": 2**34,
        "machine": 2**34,
        "limit": None,
        "swap": 0,
        "nodes": [],
    },
    "root": "root",
    "clock": 1796000000,
    "addresses": [],
    "routes": [],
    "ports": [],
    "selinux": "",
    "engine": {"state": "running", "version": "26.1.5"},
}


class Killed(BaseException):
    """The controller died: no handler of the program sees this."""


class SimulatedHost:
    """One host. `fail[operation id]` is raised instead of doing it; `log` has what was asked, in order."""

    def __init__(self, name: str = "h1") -> None:
        self.name = name
        self.state: dict[str, Any] = copy.deepcopy(NOTHING) | {
            "host": name,
            "containers": {},
            "images": {},
            "networks": {},
            "files": {},
            "releases": {},
            "weights": {"blobs": {}, "trees": {}, "partial": {}, "refs": {}},
        }
        self.fail: dict[str, CpudeployError] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.log: list[str] = []
        self.probes = 0
        self.closed = threading.Event()

    def facts(self) -> Facts:
        self.probes += 1
        return from_data(self.state, Facts)

    def close(self) -> None:
        self.closed.set()

    def perform(self, operation: op.Operation, tell: Callable[[Event], None]) -> None:
        self.log.append(operation.id)
        if operation.id in self.before:
            self.before[operation.id]()
        tell(Progress(host="", change="", operation=operation.id, text="at it"))
        if operation.id in self.fail:
            raise self.fail[operation.id]
        match operation:
            case op.Engine(request=request):
                self._engine(request)
            case op.Put(path=path, content=content):
                size = len(content) if isinstance(content, str) else 1
                file = {"kind": "file", "size": size, "mode": "0600", "owner": "root", "sha256": "x"}
                self.state["files"][path] = file
            case op.Fetch(file=file):
                blob = {"size": file.size, "inode": 1, "verified": True}
                self.state["weights"]["blobs"][file.sha256] = blob
            case op.Record(deployment=deployment, release=release, instances=instances):
                self.state["releases"].setdefault(deployment, {})[release] = to_data(instances)
            case op.Wait(container=container):
                if not self.container(container)["running"]:
                    raise EngineError(f"{container} is not running")
            case _:
                pass

    def container(self, name: str) -> dict[str, Any]:
        """Facts of a container that must be there."""
        if name not in self.state["containers"]:
            raise EngineError(f"no such container: {name}", status=404)
        found: dict[str, Any] = self.state["containers"][name]
        return found

    def add(self, name: str, release: str, *, running: bool = True, policy: str = "unless-stopped") -> None:
        """A container of ours as an earlier apply left it."""
        mark = Mark(schema=1, deployment="rag", model="qwen", instance=0, release=release)
        self.state["containers"][name] = {
            "id": f"id-{release}",
            "mark": to_data(mark),
            "image": "img@sha256:1",
            "image_id": "sha256:2",
            "status": "running" if running else "created",
            "running": running,
            "exit_code": 0,
            "oom_killed": False,
            "restarts": 0,
            "restart_policy": policy,
            "started_at": "",
            "cpuset": "",
            "quota": 0.0,
            "memory": 0,
            "memory_swap": 0,
            "publish": [],
            "networks": {},
        }

    def _engine(self, request: op.EngineRequest) -> None:
        containers = self.state["containers"]
        match request:
            case op.PullImage(places=places):
                image = {"id": "sha256:2", "references": [], "size": 1, "platform": "linux/amd64"}
                self.state["images"][places[0].reference] = image
            case op.CreateContainer(container=name, labels=labels):
                release = labels["io.cpudeploy.release"]
                if name not in containers:
                    self.add(name, release, running=False, policy="no")
                elif containers[name]["mark"]["release"] != release:
                    raise EngineError(f"{name} is taken", status=409)
            case op.StartContainer(container=name):
                self.container(name).update(running=True, status="running")
            case op.StopContainer(container=name):
                if name in containers:
                    containers[name].update(running=False, status="exited")
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
            case _:
                pass
