"""What the operations on one container are built from: an operation or a few each, none a decision."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..types.names import LABEL, secret_path
from ..types.operation import (
    ConnectNetwork,
    CreateContainer,
    Engine,
    EngineRequest,
    Operation,
    Put,
    Record,
    RemoveContainer,
    StopContainer,
    Wait,
)
from ..types.release import ContainerSpec, Diagnosis, Instance
from ..types.resolved import ResolvedImage
from .context import HostContext, script

ENGINE_S = 60
_STATE_SCHEMA = 1


@dataclass(frozen=True)
class Rollout:
    """What the changes of one apply on one host have in common: its release and every instance in it.
    `proven`: names of those that passed their gate before and are not replaced."""

    release: str
    origin: str
    weights_dir: str
    instances: dict[str, Instance]
    proven: tuple[str, ...] = ()


def engine(id: str, request: EngineRequest) -> Engine:
    """One request to the engine, with the time it may take."""
    grace = request.grace_s if isinstance(request, StopContainer) else 0
    return Engine(id=id, deadline_s=ENGINE_S + grace, request=request)


def recording(context: HostContext, rollout: Rollout) -> Record:
    """The release, on the host before anything is created."""
    return Record(
        id="record",
        deadline_s=ENGINE_S,
        deployment=context.deployment.name,
        release=rollout.release,
        host=context.host.name,
        origin=rollout.origin,
        weights_dir=rollout.weights_dir,
        instances=rollout.instances,
        proven=rollout.proven,
    )


def secrets(context: HostContext, name: str, wanted: Instance, release: str) -> tuple[Operation, ...]:
    """The secret files of a release, before the container that mounts them."""
    placed = _with_secrets_of(wanted.container, context.deployment.name, name, release)
    return tuple(
        Put(id=f"secret:{file.name}", deadline_s=30, path=file.path, mode="0600", content=file.secret)
        for file in placed.secrets
    )


def forgetting(context: HostContext, container: str, *, keep: str = "") -> Operation:
    """Remove the container's secrets, but for those of the release `keep`."""
    args = {"deployment": context.deployment.name, "container": container, "keep": keep}
    return script("forget-secrets", args, id="forget secrets", deadline_s=30)


def creating(
    context: HostContext,
    name: str,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    *,
    under: str = "",
    networks: tuple[str, ...] = (),
) -> Engine:
    """The container of `name`. `under`, `networks`: another name and fewer networks that it has at first."""
    spec = msgspec.structs.replace(wanted.container, networks=networks or wanted.container.networks)
    create = CreateContainer(
        container=under or name,
        references=tuple(place.reference for place in image.places),
        spec=_with_secrets_of(spec, context.deployment.name, name, rollout.release),
        labels={
            f"{LABEL}.schema": str(_STATE_SCHEMA),
            f"{LABEL}.deployment": context.deployment.name,
            f"{LABEL}.model": wanted.model,
            f"{LABEL}.instance": str(wanted.instance),
            f"{LABEL}.release": rollout.release,
        },
    )
    return engine("create", create)


def waiting(
    container: str, instance: Instance, diagnose: tuple[Diagnosis, ...] = (), *, id: str = "gate"
) -> Wait:
    """The gate of an instance, passed by the container that has its name now."""
    publish = instance.container.publish[0]
    return Wait(
        id=id,
        deadline_s=instance.gate.deadline_s,
        container=container,
        address=publish.address,
        port=publish.port,
        gate=instance.gate,
        api_key=instance.api_key,
        diagnose=diagnose,
    )


def away(id: str, name: str, release: str) -> Engine:
    """The container of a name away, if it is of `release`."""
    return engine(id, RemoveContainer(container=name, release=release))


def connecting(container: str, networks: tuple[str, ...]) -> tuple[Operation, ...]:
    """In every one of `networks`, whatever cut it off from some."""
    return tuple(
        engine(f"connect:{network}", ConnectNetwork(network=network, container=container))
        for network in networks
    )


def _with_secrets_of(spec: ContainerSpec, deployment: str, container: str, release: str) -> ContainerSpec:
    """The spec with its secret files in the release's own folder."""
    files = tuple(
        msgspec.structs.replace(file, path=secret_path(deployment, container, f"{release}/{file.name}"))
        for file in spec.secrets
    )
    return msgspec.structs.replace(spec, secrets=files)
