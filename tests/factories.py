"""Ready-made facts, deployments and resolved data for tests of the pure rooms. Every value can be overridden."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from cpudeploy.manifest import load_playbook
from cpudeploy.types.deployment import Backend, Deployment, Host, HuggingFace, Placement, Ssh
from cpudeploy.types.facts import (
    Container,
    Core,
    Cpu,
    Disk,
    Engine,
    Facts,
    Listening,
    Mark,
    Memory,
    Network,
    Node,
    Os,
    Publish,
)
from cpudeploy.types.playbook import Playbook
from cpudeploy.types.resolved import Place, Resolved, ResolvedImage, ResolvedWeights, WeightFile
from cpudeploy.types.shape import AttentionLayers, ModelShape, Tensors

GIB = 1 << 30
DIGEST = "sha256:" + "d" * 64
SHA = "a" * 64


def cores(count: int, *, smt: int = 1, nodes: int = 1) -> tuple[Core, ...]:
    """Cores numbered as Linux does: siblings of core i are i, i + count, …"""
    return tuple(
        Core(
            cpus=tuple(i + count * k for k in range(smt)), socket=i * nodes // count, node=i * nodes // count
        )
        for i in range(count)
    )


def facts(host: str = "one", **changes: Any) -> Facts:
    """A Debian 12 host with 4 cores, 16 GiB, a running engine and nothing of ours."""
    usable = changes.pop("cores", cores(4))
    base = Facts(
        host=host,
        os=Os(
            id="debian",
            version="12",
            codename="bookworm",
            name="Debian 12",
            kernel="6.1.0",
            arch="amd64",
            page_size=4096,
        ),
        cpu=Cpu(
            model="Some CPU",
            flags=("avx2",),
            online=len(usable),
            sockets=len({core.socket for core in usable}),
            usable=tuple(sorted(cpu for core in usable for cpu in core.cpus)),
            cores=usable,
            quota=changes.pop("quota", None),
        ),
        memory=Memory(
            total=changes.pop("memory", 16 * GIB),
            available=12 * GIB,
            machine=16 * GIB,
            limit=None,
            swap=0,
            nodes=(Node(id=0, memory=16 * GIB),),
        ),
        root="root",
        clock=1_800_000_000,
        addresses=("127.0.0.1", "10.1.2.3"),
        routes=("10.1.2.0/24",),
        ports=(Listening(address="0.0.0.0", port=22),),
        selinux="",
        tools={"apt-get": True, "curl": True},
        engine=Engine(state="running", version="20.10.24", root="/var/lib/docker"),
        disks={
            "/var/lib/cpudeploy/weights": Disk(mount="/", total=100 * GIB, free=80 * GIB),
            "/var/lib/docker": Disk(mount="/", total=100 * GIB, free=80 * GIB),
        },
    )
    return msgspec.structs.replace(base, **changes)


def shape(**changes: Any) -> ModelShape:
    """A small llama: 30 layers, 3 KV heads of 64, trained for 8192 tokens."""
    values: dict[str, Any] = {
        "architecture": "llama",
        "layers": 30,
        "context_length": 8192,
        "embedding": 576,
        "heads": 9,
        "feed_forward": 1536,
        "vocabulary": 49152,
        "attention": (AttentionLayers(layers=30, kv_heads=3, key_length=64, value_length=64),),
        "chat_template": True,
    }
    return ModelShape(**{**values, **changes})


def tensors(**changes: Any) -> Tensors:
    """96 MB, all of it in f32."""
    return Tensors(**{"size": 96_000_000, "matrices": {"F32": 80_000_000}, **changes})


def deployment(*placements: Placement, hosts: tuple[str, ...] = ("one",), **changes: Any) -> Deployment:
    """A deployment named rag with one llama.cpp backend."""
    return Deployment(
        name="rag",
        base="/nowhere",
        hosts={name: Host(name=name, ssh=Ssh(address="10.1.2.3")) for name in hosts},
        backends={
            "llama": Backend(
                name="llama", playbook="llama-cpp", image="ghcr.io/ggml-org/llama.cpp:server-b9000"
            )
        },
        placements=placements,
        **changes,
    )


def placement(model: str = "smol", **changes: Any) -> Placement:
    """One model on host `one`, port 8100, context 2048 × 2."""
    values: dict[str, Any] = {
        "model": model,
        "host": "one",
        "source": HuggingFace(repo="org/name"),
        "backend": "llama",
        "port": 8100,
        "context": 2048,
        "parallel": 2,
        "served_name": model,
    }
    return Placement(**{**values, **changes})


def resolved(*wanted: Placement, **changes: Any) -> Resolved:
    """An image at a mirror and one file a model."""
    image = ResolvedImage(
        reference="ghcr.io/ggml-org/llama.cpp:server-b9000",
        digest=DIGEST,
        authority="origin",
        places=(
            Place(
                reference=f"mirror.corp/ggml-org/llama.cpp@{DIGEST}", digest=DIGEST, registry="mirror.corp"
            ),
        ),
        platforms=("linux/amd64",),
        size=86_000_000,
    )
    weights = ResolvedWeights(
        tree="org-name-0123456789ab",
        source="huggingface org/name@abc",
        revision="abc",
        files=(WeightFile(name="m.gguf", size=98_000_000, sha256=SHA, urls=("https://hub/m.gguf",)),),
        entry="m.gguf",
        shape=changes.pop("shape", shape()),
        tensors=changes.pop("tensors", tensors()),
    )
    base = Resolved(
        images={"llama": image}, weights={f"{item.model}@{item.host}": weights for item in wanted}
    )
    return msgspec.structs.replace(base, **changes)


def playbooks() -> dict[str, Playbook]:
    """The shipped playbooks."""
    return {name: _shipped(name) for name in ("docker", "llama-cpp")}


@functools.cache
def _shipped(name: str) -> Playbook:
    return load_playbook(name, ())


def container(model: str = "smol", *, release: str = "0001-aaaaaaaa", **changes: Any) -> Container:
    """A container of ours that serves."""
    values: dict[str, Any] = {
        "id": f"id-{model}",
        "mark": Mark(schema=1, deployment="rag", model=model, instance=0, release=release),
        "image": f"mirror.corp/ggml-org/llama.cpp@{DIGEST}",
        "image_id": "sha256:cfg",
        "status": "running",
        "running": True,
        "exit_code": 0,
        "oom_killed": False,
        "restarts": 0,
        "restart_policy": "unless-stopped",
        "started_at": "2026-11-30T10:00:00Z",
        "cpuset": "0-3",
        "quota": 0.0,
        "memory": 0,
        "memory_swap": 0,
        "publish": (Publish(address="127.0.0.1", port=8100, container_port=8080),),
        "networks": {"rag_pub": "10.213.0.2", "rag_int": "10.213.0.66"},
    }
    return Container(**{**values, **changes})


def network(name: str) -> Network:
    """One of our networks."""
    return Network(
        id=name, driver="bridge", internal=name.endswith("_int"), subnets=("10.213.0.0/26",), deployment="rag"
    )
