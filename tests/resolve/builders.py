"""Deployments and facts with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cpudeploy.types.deployment import Backend, Deployment, Host, HostPath, Placement, Ssh
from cpudeploy.types.facts import Container, Cpu, Engine, Facts, Mark, Memory, Os
from cpudeploy.types.shape import AttentionLayers


def placement(**fields: Any) -> Placement:
    source = HostPath(path="/data/x.gguf")
    common = {"model": "chat", "host": "h1", "source": source, "backend": "llama", "port": 8080}
    return Placement(**{**common, "served_name": "chat", **fields})


def deployment(*placements: Placement, image: str = "registry.invalid/x:1", **fields: Any) -> Deployment:
    hosts = {each.host: Host(name=each.host, ssh=Ssh(address=each.host)) for each in placements}
    backends = {"llama": Backend(name="llama", playbook="llama-cpp", image=image)}
    common = {"name": "rag", "base": "/", "hosts": hosts, "backends": backends, "placements": placements}
    return Deployment(**{**common, **fields})


def container(mark: Mark | None, **fields: Any) -> Container:
    common = {"id": "c", "mark": mark, "image": "x", "image_id": "i", "status": "running", "running": True}
    counts = {"exit_code": 0, "oom_killed": False, "restarts": 0, "quota": 0.0, "memory": 0, "memory_swap": 0}
    words = {"restart_policy": "no", "started_at": "", "cpuset": "", "publish": (), "networks": {}}
    return Container(**{**common, **counts, **words, **fields})


def facts(
    host: str = "h1", *, arch: str = "amd64", containers: Iterable[Container] = (), **fields: Any
) -> Facts:
    system = Os(id="debian", version="12", codename="", name="", kernel="6", arch=arch, page_size=4096)
    cpu = Cpu(model="x", flags=(), online=4, sockets=1, usable=(), cores=(), quota=None)
    memory = Memory(total=0, available=0, machine=0, limit=None, swap=0, nodes=())
    common = {"host": host, "os": system, "cpu": cpu, "memory": memory, "root": "root", "clock": 0}
    more = {"addresses": (), "routes": (), "ports": (), "selinux": "", "engine": Engine(state="absent")}
    named = {f"c{number}": each for number, each in enumerate(containers)}
    return Facts(**{**common, **more, "containers": named, **fields})


def attends(
    layers: int, kv_heads: int, key: int, value: int | None = None, window: int | None = None
) -> AttentionLayers:
    """Layers with a cache; values are as long as keys unless said otherwise."""
    return AttentionLayers(
        layers=layers,
        kv_heads=kv_heads,
        key_length=key,
        value_length=key if value is None else value,
        window=window,
    )
