"""The operations that put one container in another's place, prove it, and undo both.

Stop-first: the old container is stopped and renamed, and removed only when the new one has passed its
gate. Secrets lie in a folder of the release, so that what is kept still has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..types.names import LABEL, secret_path
from ..types.operation import (
    CreateContainer,
    Engine,
    EngineRequest,
    Operation,
    Put,
    Record,
    RemoveContainer,
    RenameContainer,
    RestartPolicy,
    StartContainer,
    StopContainer,
    Wait,
)
from ..types.release import ContainerSpec, Diagnosis, Instance
from ..types.resolved import ResolvedImage
from .context import HostContext, script
from .found import Found

SERVING_POLICY = "unless-stopped"
_ENGINE_S = 60
_STATE_SCHEMA = 1


@dataclass(frozen=True)
class Rollout:
    """What the changes of one apply on one host have in common: its release and every instance in it."""

    release: str
    origin: str
    weights_dir: str
    instances: dict[str, Instance]


def replacing(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
) -> tuple[Operation, ...]:
    """From whatever stands under the name to `wanted`, proven and alone."""
    placed = _with_secrets_of(wanted.container, context.deployment.name, found.name, rollout.release)
    create = CreateContainer(
        container=found.name,
        references=tuple(place.reference for place in image.places),
        spec=placed,
        labels={
            f"{LABEL}.schema": str(_STATE_SCHEMA),
            f"{LABEL}.deployment": context.deployment.name,
            f"{LABEL}.model": wanted.model,
            f"{LABEL}.instance": str(wanted.instance),
            f"{LABEL}.release": rollout.release,
        },
    )
    return (
        recording(context, rollout),
        *_secrets(context, found.name, wanted, rollout.release),
        *_moving_away(found, wanted),
        _engine("create", create),
        *_serving(context, found.name, wanted, rollout.release, diagnose),
    )


def recording(context: HostContext, rollout: Rollout) -> Record:
    """The release, on the host before anything is created."""
    return Record(
        id="record",
        deadline_s=_ENGINE_S,
        deployment=context.deployment.name,
        release=rollout.release,
        host=context.host.name,
        origin=rollout.origin,
        weights_dir=rollout.weights_dir,
        instances=rollout.instances,
    )


def proving(
    context: HostContext, found: Found, wanted: Instance, release: str, diagnose: tuple[Diagnosis, ...]
) -> tuple[Operation, ...]:
    """Start, gate, let it serve, and clear what was kept. A paused or restarting one begins anew.

    Its secret files are written once more: they may be what keeps it from starting.
    """
    stuck = found.current is not None and found.current.running and not found.up
    again = (_engine("stop", StopContainer(container=found.name, grace_s=10)),) if stuck else ()
    return (
        *_secrets(context, found.name, wanted, release),
        *again,
        *_serving(context, found.name, wanted, release, diagnose),
    )


def _serving(
    context: HostContext, name: str, wanted: Instance, release: str, diagnose: tuple[Diagnosis, ...]
) -> tuple[Operation, ...]:
    return (
        _engine("start", StartContainer(container=name)),
        _waiting(name, wanted, diagnose),
        _engine("serve", RestartPolicy(container=name, policy=SERVING_POLICY)),
        _engine("clear", RemoveContainer(container=f"{name}_old")),
        forgetting(context, name, keep=release),
    )


def _secrets(context: HostContext, name: str, wanted: Instance, release: str) -> tuple[Operation, ...]:
    """The secret files of a release, before the container that mounts them."""
    placed = _with_secrets_of(wanted.container, context.deployment.name, name, release)
    return tuple(
        Put(id=f"secret:{file.name}", deadline_s=30, path=file.path, mode="0600", content=file.secret)
        for file in placed.secrets
    )


def undoing(
    context: HostContext, found: Found, release: str, *, kept: bool, secret_changed: bool
) -> tuple[Operation, ...]:
    """Away with the new container (of `release`, no other); what was kept comes back and is proven again."""
    away = _engine("remove new", RemoveContainer(container=found.name, release=release))
    if not kept:
        return (away,)
    back = (
        away,
        _engine("put back", RenameContainer(container=found.old_name, to=found.name)),
        _engine("start old", StartContainer(container=found.name)),
    )
    served = found.recorded if found.proven else found.recorded_old
    if served is None:
        return back
    # The old one has its own key, which only the host knows once the manifest's has changed.
    return (*back, _waiting(found.name, _without_key(served) if secret_changed else served, ()))


def stopping(name: str, grace_s: int) -> tuple[Operation, ...]:
    """Stop and remove for good."""
    return (
        _engine("stop", StopContainer(container=name, grace_s=grace_s)),
        _engine("remove", RemoveContainer(container=name)),
    )


def forgetting(context: HostContext, container: str, *, keep: str = "") -> Operation:
    """Remove the container's secrets, but for those of the release `keep`."""
    args = {"deployment": context.deployment.name, "container": container, "keep": keep}
    return script("forget-secrets", args, id="forget secrets", deadline_s=30)


def _moving_away(found: Found, wanted: Instance) -> tuple[Operation, ...]:
    """The name freed. A container that has served is kept; one that never did is of no use to anybody."""
    if found.current is None:
        return ()
    stop = _engine("stop", StopContainer(container=found.name, grace_s=wanted.container.stop_timeout_s))
    if not found.proven:
        return (stop, _engine("remove unproven", RemoveContainer(container=found.name)))
    keep = _engine("keep", RenameContainer(container=found.name, to=found.old_name))
    if found.old is None:
        return (stop, keep)
    # Under the old name then is what a change left behind that ended after its gate.
    return (_engine("remove leftover", RemoveContainer(container=found.old_name)), stop, keep)


def _waiting(container: str, instance: Instance, diagnose: tuple[Diagnosis, ...]) -> Wait:
    publish = instance.container.publish[0]
    return Wait(
        id="gate",
        deadline_s=instance.gate.deadline_s,
        container=container,
        address=publish.address,
        port=publish.port,
        gate=instance.gate,
        api_key=instance.api_key,
        diagnose=diagnose,
    )


def _without_key(instance: Instance) -> Instance:
    open_checks = tuple(check for check in instance.gate.checks if not check.auth)
    gate = msgspec.structs.replace(instance.gate, checks=open_checks)
    return msgspec.structs.replace(instance, api_key=None, gate=gate)


def _with_secrets_of(spec: ContainerSpec, deployment: str, container: str, release: str) -> ContainerSpec:
    """The spec with its secret files in the release's own folder."""
    files = tuple(
        msgspec.structs.replace(file, path=secret_path(deployment, container, f"{release}/{file.name}"))
        for file in spec.secrets
    )
    return msgspec.structs.replace(spec, secrets=files)


def _engine(id: str, request: EngineRequest) -> Engine:
    grace = request.grace_s if isinstance(request, StopContainer) else 0
    return Engine(id=id, deadline_s=_ENGINE_S + grace, request=request)
