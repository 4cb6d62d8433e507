"""What one placement should be on its host: the full spec, every template rendered.

In: placement, allocation, resolved image and files, playbook. Out: `Instance`, the same value for the
same wishes always, so that comparing it with what the host recorded is all a diff needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..manifest.sizes import parse_size
from ..manifest.templates import TemplateError, evaluate, render
from ..manifest.versions import Version, backend_version
from ..sizing.ranks import rank_cpus
from ..types.allocation import Allocation
from ..types.base import Unknown
from ..types.capability import able
from ..types.cpulist import parse_cpulist
from ..types.deployment import Backend, Placement
from ..types.facts import Publish
from ..types.names import container_name, secret_path, volume_name
from ..types.playbook import ContainerTemplate, Playbook
from ..types.references import parse_reference
from ..types.release import ContainerSpec, Instance, Mount, SecretFile
from ..types.resolved import ResolvedImage, ResolvedWeights
from .addresses import listen_address
from .binding import bound_cpus
from .context import GIB, HostContext
from .health import wanted_gate
from .network import network_names
from .weights import bytes_to_load, weights_folder

API_KEY = "api_key"


def wanted_instance(
    context: HostContext,
    placement: Placement,
    allocation: Allocation,
    backend: Backend,
    playbook: Playbook,
    image: ResolvedImage,
    weights: ResolvedWeights,
) -> Instance:
    """The spec of one instance. Raises HostError when the host can't give what it says, TemplateError
    when the playbook's templates give what can't be used."""
    template = playbook.container
    if template is None:
        raise ValueError(f"playbook {playbook.name} has no container")  # the schema forbids it
    name = container_name(context.deployment.name, placement.model, allocation.instance)
    version = backend_version(backend, playbook)
    values = _values(context, placement, allocation, backend, playbook, image, weights, template, version)
    secrets = _secrets(context, placement, template, name)
    spec = ContainerSpec(
        # Where nobody knows the digest, the spec says so by having none: it is of a plan nobody can apply.
        image=image.reference
        if isinstance(image.digest, Unknown)
        else parse_reference(image.reference).at(image.digest),
        entrypoint=tuple(render(part, values) for part in template.entrypoint),
        command=(*_arguments(template, values), *(render(arg, values) for arg in placement.args)),
        env=_env(template, placement, values),
        publish=(
            Publish(
                address=listen_address(placement, context.host, context.facts),
                port=placement.port + allocation.instance,
                container_port=template.port,
            ),
        ),
        cpuset=allocation.cpuset,
        cpuset_mems=allocation.mems,
        memory=allocation.memory,
        shm=_shm(playbook, template, values),
        cap_add=template.cap_add,
        security_opt=template.security_opt,
        ulimits=template.ulimits,
        read_only=template.read_only,
        tmpfs=template.tmpfs,
        mounts=(
            Mount(source=weights_folder(context, placement, weights), target=template.weights_target),
            *_volumes(context, placement, template),
        ),
        secrets=secrets,
        networks=network_names(context.deployment.name),
        stop_timeout_s=template.stop_timeout_s,
        healthcheck=template.healthcheck,
    )
    return Instance(
        model=placement.model,
        instance=allocation.instance,
        backend=backend.name,
        playbook=playbook.name,
        engine_version=str(version or ""),
        source=weights.source,
        tree=weights.tree,
        context=allocation.context,
        parallel=allocation.parallel,
        threads=allocation.threads,
        threads_batch=allocation.threads_batch,
        served_name=placement.served_name,
        task=placement.task,
        cpus=placement.cpus,
        memory_asked=placement.memory,
        kv=allocation.need.kv if playbook.memory == "paged" else 0,
        kv_asked=placement.kv,
        params=playbook.params_with(backend.params, placement.params),
        container=spec,
        gate=wanted_gate(playbook, placement, bytes_to_load(context, placement, weights), values),
        api_key=placement.api_key,
        image_reference=image.reference,
    )


def _values(
    context: HostContext,
    placement: Placement,
    allocation: Allocation,
    backend: Backend,
    playbook: Playbook,
    image: ResolvedImage,
    weights: ResolvedWeights,
    template: ContainerTemplate,
    version: Version,
) -> dict[str, Any]:
    """The closed context of templates. Nothing in here drifts by itself."""
    folder = template.weights_target
    ranks = rank_cpus(allocation.cpuset, allocation.threads, context.facts, allocation.ranks)
    kv = allocation.need.kv // len(ranks)
    return {
        "model": {
            "name": placement.model,
            "served_name": placement.served_name,
            "task": placement.task,
            "context": allocation.context,
            "parallel": allocation.parallel,
            "api_key_file": template.api_key_file if placement.api_key and template.api_key_file else "",
        },
        "host": {"name": placement.host},
        "cpu": _cpu(context),
        "alloc": {
            "instance": allocation.instance,
            "cpuset": allocation.cpuset,
            "threads": allocation.threads,
            "threads_batch": allocation.threads_batch,
            "context": allocation.context,
            "context_total": allocation.context_total,
            "parallel": allocation.parallel,
            "memory": allocation.memory,
            "weights": allocation.need.weights,
            "kv": kv,
            "kv_gib": max(1, -(-kv // GIB)),
            "cache": allocation.need.cache,
            "mems": allocation.mems,
            "ranks": len(ranks),
            "rank_threads": len(parse_cpulist(ranks[0])),
            "cpus_bind": bound_cpus(placement, allocation, ranks),
        },
        "image": {"version": version, "reference": image.reference},
        "param": playbook.params_with(backend.params, placement.params),
        "files": {
            "dir": folder,
            "entry": weights.entry,
            "path": f"{folder}/{weights.entry}" if weights.entry else folder,
            "projector": f"{folder}/{weights.projector}" if weights.projector else "",
        },
    }


def _cpu(context: HostContext) -> dict[str, str | bool]:
    """What the processor can do, as far as it is told."""
    arch = context.facts.os.arch
    abilities = {name: able(context.facts, name) is True for name in ("avx2", "avx512f", "bf16", "amx")}
    return {"arch": arch if isinstance(arch, str) else "", **abilities}


def _arguments(template: ContainerTemplate, values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        render(text, values)
        for argument in template.arguments
        if argument.when is None or evaluate(argument.when, values)
        for text in argument.args
    )


def _env(template: ContainerTemplate, placement: Placement, values: Mapping[str, Any]) -> dict[str, str]:
    """The playbook's variables, but those that come out empty, and the model's own over them."""
    rendered = {name: render(text, values) for name, text in template.env.items()}
    own = {name: render(text, values) for name, text in placement.env.items()}
    return {**{name: text for name, text in rendered.items() if text}, **own}


def _shm(playbook: Playbook, template: ContainerTemplate, values: Mapping[str, Any]) -> int | None:
    """Bytes of /dev/shm; None leaves the engine's default."""
    if template.shm is None:
        return None
    size = render(template.shm, values)
    try:
        return parse_size(int(size) if size.isdecimal() else size)
    except ValueError as error:
        raise TemplateError(
            f"`shm` of playbook {playbook.name} gives {size[:80]!r}: {error}", do="correct the playbook"
        ) from None


def _volumes(context: HostContext, placement: Placement, template: ContainerTemplate) -> tuple[Mount, ...]:
    return tuple(
        Mount(
            source=volume_name(context.deployment.name, placement.model, name),
            target=target,
            read_only=False,
        )
        for name, target in template.volumes.items()
    )


def _secrets(
    context: HostContext, placement: Placement, template: ContainerTemplate, name: str
) -> tuple[SecretFile, ...]:
    if placement.api_key is None or template.api_key_file is None:
        return ()
    path = secret_path(context.deployment.name, name, API_KEY)
    return (SecretFile(name=API_KEY, path=path, target=template.api_key_file, secret=placement.api_key),)
