"""Both engines on one host: deployments, what was resolved, and allocations of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cpudeploy.manifest import load_playbook
from cpudeploy.sizing import allocate
from cpudeploy.types.allocation import Allocation
from cpudeploy.types.deployment import Backend, Deployment, Placement, Reserve
from cpudeploy.types.facts import Facts
from cpudeploy.types.playbook import Overhead, Playbook
from cpudeploy.types.resolved import Resolved
from cpudeploy.types.shape import AttentionLayers, ModelShape, Tensors
from tests.factories import deployment, placement, playbooks, resolved

VLLM: Playbook = load_playbook("vllm-cpu")
NEWEST: Overhead = VLLM.overheads[-1]
BOOKS: Mapping[str, Playbook] = {**playbooks(), "vllm-cpu": VLLM}
TABLE = 151936 * 1024 * 2


def small(**changes: Any) -> ModelShape:
    """Qwen3-0.6B's."""
    values: dict[str, Any] = {
        "architecture": "qwen3",
        "layers": 28,
        "context_length": 40960,
        "embedding": 1024,
        "heads": 16,
        "feed_forward": 3072,
        "vocabulary": 151936,
        "attention": (AttentionLayers(layers=28, kv_heads=8, key_length=128, value_length=128),),
        "parameters": 596_049_920,
        "chat_template": True,
    }
    return ModelShape(**{**values, **changes})


def full(size: int = 2 * 596_049_920) -> Tensors:
    """All of it in bfloat16, the token table among the matrices."""
    return Tensors(size=size, matrices={"BF16": size})


def both(*placements: Placement, overhead: Overhead = NEWEST, **reserve: int) -> Deployment:
    """A deployment with a backend of each engine; vLLM's calculates in bfloat16 on any host."""
    wanted = deployment(*placements)
    vllm = Backend(
        name="vllm",
        playbook="vllm-cpu",
        image="vllm/vllm-openai-cpu:v0.32.0",
        params={"dtype": "bfloat16"},
        overhead=overhead,
    )
    hosts = {
        name: msgspec.structs.replace(host, reserve=Reserve(**reserve)) for name, host in wanted.hosts.items()
    }
    return msgspec.structs.replace(wanted, backends={**wanted.backends, "vllm": vllm}, hosts=hosts)


def paged(model: str = "full", **changes: Any) -> Placement:
    return placement(model, backend="vllm", **changes)


def known(
    *placements: Placement, shape: ModelShape | None = None, tensors: Tensors | None = None
) -> Resolved:
    """Each engine's files: a GGUF of the factories' small llama, a folder of safetensors."""
    found = resolved(*placements)
    weights = dict(found.weights)
    for each in placements:
        if each.backend == "vllm":
            key = f"{each.model}@{each.host}"
            size = (tensors or full()).size
            (file,) = weights[key].files
            weights[key] = msgspec.structs.replace(
                weights[key],
                entry="",
                files=(msgspec.structs.replace(file, name="model.safetensors", size=size),),
                shape=shape or small(),
                tensors=tensors or full(),
            )
    vllm = msgspec.structs.replace(found.images["llama"], reference="docker.io/vllm/vllm-openai-cpu:v0.32.0")
    return msgspec.structs.replace(found, weights=weights, images={**found.images, "vllm": vllm})


def allocated(
    host: Facts,
    *placements: Placement,
    shape: ModelShape | None = None,
    tensors: Tensors | None = None,
    **more: Any,
) -> dict[str, Allocation]:
    """What each gets. more: of `both`."""
    return allocate(
        both(*placements, **more), "one", host, known(*placements, shape=shape, tensors=tensors), BOOKS
    )
