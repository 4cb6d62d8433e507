"""What one placement should be on its host: the full spec, every template rendered.

In: placement, allocation, resolved image and files, playbook. Out: `Instance`, the same value for the
same wishes always, so that comparing it with what the host recorded is all a diff needs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ..errors import HostError
from ..manifest.templates import evaluate, render
from ..manifest.versions import Version, backend_version
from ..types.allocation import Allocation
from ..types.deployment import Backend, Placement
from ..types.facts import Facts, Publish
from ..types.names import container_name, secret_path
from ..types.playbook import ContainerTemplate, Playbook
from ..types.release import ContainerSpec, Instance, Mount, SecretFile
from ..types.resolved import ResolvedImage, ResolvedWeights
from .context import HostContext
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
    """The spec of one instance. Raises HostError when the host can't give what it says."""
    template = playbook.container
    if template is None:
        raise ValueError(f"playbook {playbook.name} has no container")  # the schema forbids it
    name = container_name(context.deployment.name, placement.model, allocation.instance)
    version = backend_version(backend, playbook)
    values = _values(placement, allocation, backend, playbook, image, weights, template, version)
    secrets = _secrets(context, placement, template, name)
    spec = ContainerSpec(
        image=f"{_repository(image.reference)}@{image.digest}",
        entrypoint=tuple(render(part, values) for part in template.entrypoint),
        command=(*_arguments(template, values), *(render(arg, values) for arg in placement.args)),
        env={key: render(text, values) for key, text in {**template.env, **placement.env}.items()},
        publish=(
            Publish(
                address=listen_address(placement.listen, context.facts),
                port=placement.port + allocation.instance,
                container_port=template.port,
            ),
        ),
        cpuset=allocation.cpuset,
        memory=allocation.memory,
        cap_add=template.cap_add,
        security_opt=template.security_opt,
        ulimits=template.ulimits,
        read_only=template.read_only,
        tmpfs=template.tmpfs,
        mounts=(Mount(source=weights_folder(context, placement, weights), target=template.weights_target),),
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
        container=spec,
        gate=wanted_gate(playbook, placement.task, bytes_to_load(context, placement, weights), values),
        api_key=placement.api_key,
        image_reference=image.reference,
    )


def listen_address(listen: str, facts: Facts) -> str:
    """The one address to publish on: as written, or the host's own address in a CIDR, or `host`.

    Raises HostError listing the host's addresses when none fits.
    """
    own = [address for address in facts.addresses if not ipaddress.ip_address(address).is_loopback]
    if listen == "host":
        found = own
    elif "/" in listen:
        network = ipaddress.ip_network(listen, strict=False)
        found = [address for address in own if ipaddress.ip_address(address) in network]
    else:
        return listen
    if not found:
        raise HostError(
            f"listen: {listen} matches none of the host's addresses ({', '.join(own) or 'none known'})",
            where=facts.host,
            do="write one of them, or 127.0.0.1",
        )
    return found[0]


def _values(
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
            "kv": allocation.need.kv,
            "cache": allocation.need.cache,
        },
        "image": {"version": version, "reference": image.reference},
        "param": {**playbook.params, **backend.params},
        "files": {
            "dir": folder,
            "entry": weights.entry,
            "path": f"{folder}/{weights.entry}" if weights.entry else folder,
        },
    }


def _arguments(template: ContainerTemplate, values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        render(text, values)
        for argument in template.arguments
        if argument.when is None or evaluate(argument.when, values)
        for text in argument.args
    )


def _secrets(
    context: HostContext, placement: Placement, template: ContainerTemplate, name: str
) -> tuple[SecretFile, ...]:
    if placement.api_key is None or template.api_key_file is None:
        return ()
    path = secret_path(context.deployment.name, name, API_KEY)
    return (SecretFile(name=API_KEY, path=path, target=template.api_key_file, secret=placement.api_key),)


def _repository(reference: str) -> str:
    """The reference without digest and tag."""
    name = reference.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name
