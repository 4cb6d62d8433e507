"""A model's container: created, replaced stop-first, proven again, or removed.

The old container is stopped and renamed, never removed before the new one has passed its gate. Every
state an interrupted change can leave is a starting point here, told apart by facts of the engine alone:
a restart policy other than `no` means that the container has passed its gate once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import HostError
from ..types.base import digest, from_data
from ..types.facts import Container
from ..types.names import LABEL, container_name
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
from ..types.plan import Change, FieldDiff, Fingerprint
from ..types.release import Diagnosis, Instance, Release
from ..types.resolved import ResolvedImage
from .compare import differences, drift
from .context import HostContext, pointer, script

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


@dataclass(frozen=True)
class _Found:
    """A container name as the host has it: the current one, and the one kept while replacing."""

    name: str
    current: Container | None
    old: Container | None
    recorded: Instance | None
    recorded_old: Instance | None

    @property
    def old_name(self) -> str:
        return f"{self.name}_old"

    @property
    def proven(self) -> bool:
        return self.current is not None and self.current.restart_policy != "no"


def container_changes(
    context: HostContext,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    load_bytes: int,
) -> tuple[Change, ...]:
    """What brings the host to `wanted`; nothing when it already serves so. Pure."""
    name = container_name(context.deployment.name, wanted.model, wanted.instance)
    found = _find(context, name)
    secret_key = f"{context.host.name}/{context.deployment.name}/{wanted.model}/{wanted.instance}/api_key"
    secret_changed = context.resolved.secrets.get(secret_key) == "changed"
    diff = differences(found.recorded, wanted, secret_changed)
    by_hand = drift(found.current, found.recorded.container) if found.current and found.recorded else ()
    if found.current is not None and not diff and not by_hand and found.recorded is not None:
        if found.proven and found.current.running and found.old is None:
            return ()
        return (_prove(context, found, wanted, rollout, diagnose),)
    _refuse_taken_port(context, wanted, name)
    return (_replace(context, found, wanted, image, rollout, diagnose, (*diff, *by_hand), load_bytes),)


def removal_changes(context: HostContext, wanted_names: frozenset[str]) -> tuple[Change, ...]:
    """Remove our containers that the manifest no longer names, with what was kept of them."""
    ours = sorted(
        name
        for name, container in context.facts.containers.items()
        if container.mark is not None
        and container.mark.deployment == context.deployment.name
        and name.removesuffix("_old") not in wanted_names
    )
    return tuple(_removal(context, name) for name in ours)


def next_release(context: HostContext, instances: dict[str, Instance]) -> str:
    """`0007-1a2b3c4d`: one above the highest the host knows, and a digest of what it says."""
    known = [*context.facts.releases.get(context.deployment.name, {})]
    known += [
        container.mark.release
        for container in context.facts.containers.values()
        if container.mark is not None and container.mark.deployment == context.deployment.name
    ]
    numbers = [int(head) for head in (release.partition("-")[0] for release in known) if head.isdigit()]
    return f"{max(numbers, default=0) + 1:04d}-{digest(instances)[:8]}"


def _find(context: HostContext, name: str) -> _Found:
    current = _ours(context, name)
    old = _ours(context, f"{name}_old")
    return _Found(
        name=name,
        current=current,
        old=old,
        recorded=_recorded(context, name, current),
        recorded_old=_recorded(context, name, old),
    )


def _recorded(context: HostContext, name: str, container: Container | None) -> Instance | None:
    """The spec a container was created from, by the release it names."""
    if container is None or container.mark is None:
        return None
    document = context.facts.releases.get(context.deployment.name, {}).get(container.mark.release)
    return from_data(document, Release).instances.get(name) if document else None


def _ours(context: HostContext, name: str) -> Container | None:
    container = context.facts.containers.get(name)
    if container is not None and (
        container.mark is None or container.mark.deployment != context.deployment.name
    ):
        raise HostError(
            f"a container named {name} is there already and is not ours",
            where=context.host.name,
            do=f"rename or remove it (docker rm {name}), or choose another deployment or model name",
        )
    return container


def _refuse_taken_port(context: HostContext, wanted: Instance, name: str) -> None:
    """A port that somebody else holds. One of our own containers that will move away is no obstacle."""
    wanted_ports = {publish.port: publish.address for publish in wanted.container.publish}
    ours = {
        publish.port
        for other, container in context.facts.containers.items()
        if container.mark is not None and container.mark.deployment == context.deployment.name
        for publish in container.publish
    }
    if isinstance(context.facts.ports, tuple):
        for listening in context.facts.ports:
            if listening.port in wanted_ports and listening.port not in ours:
                raise HostError(
                    f"port {listening.port} is taken on {listening.address} by something that is not ours",
                    where=f"{context.host.name} {wanted.model}",
                    do="choose another port, or stop what listens there",
                )


def _replace(
    context: HostContext,
    found: _Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    diff: tuple[FieldDiff, ...],
    load_bytes: int,
) -> Change:
    name, old_name = found.name, found.old_name
    away: list[Operation] = []
    kept = found.old is not None
    if found.current is not None:
        away.append(_engine("stop", StopContainer(container=name, grace_s=wanted.container.stop_timeout_s)))
        if found.proven:
            # What is under the old name then is left over from a change that ended after its gate.
            if kept:
                away.insert(0, _engine("remove leftover", RemoveContainer(container=old_name)))
            away.append(_engine("keep", RenameContainer(container=name, to=old_name)))
            kept = True
        else:
            away.append(_engine("remove unproven", RemoveContainer(container=name)))
    labels = {
        f"{LABEL}.schema": str(_STATE_SCHEMA),
        f"{LABEL}.deployment": context.deployment.name,
        f"{LABEL}.model": wanted.model,
        f"{LABEL}.instance": str(wanted.instance),
        f"{LABEL}.release": rollout.release,
    }
    create = CreateContainer(
        container=name,
        references=tuple(place.reference for place in image.places),
        spec=wanted.container,
        labels=labels,
    )
    operations = (
        *_written(context, wanted, rollout),
        *away,
        _engine("create", create),
        *_proof(found, wanted, diagnose),
    )
    served = found.recorded if found.proven else found.recorded_old
    is_new = found.current is None and found.old is None
    return Change(
        id=f"container:{name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="create" if is_new else "update",
        why=_why(found, diff),
        summary=_summary(wanted) + ("" if is_new else " · stop first"),
        diff=diff,
        before=_before(found),
        after=_after(found, rollout.release),
        operations=operations,
        revert=_undo(found, rollout.release, served if kept else None, kept=kept),
        gap_s=None if is_new else wanted.gate.stable_s + 3 + load_bytes // 200_000_000,
    )


def _prove(
    context: HostContext,
    found: _Found,
    wanted: Instance,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
) -> Change:
    """The right container, but stopped or never proven: start it, gate it, clear what was kept."""
    current = found.current
    if current is None or current.mark is None:
        raise ValueError(f"{found.name}: nothing to prove")
    if not current.running:
        why = f"stopped with exit code {current.exit_code}"
    elif not found.proven:
        why = "started, but its gate was never passed"
    else:
        why = "an interrupted change left the old container behind"
    revert: tuple[Operation, ...] = ()
    if found.old is not None and not found.proven:
        revert = _undo(found, current.mark.release, found.recorded_old, kept=True)
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="gate",
        why=why,
        summary=_summary(wanted),
        before=_before(found),
        after=_after(found, current.mark.release),
        operations=_proof(found, wanted, diagnose),
        revert=revert,
    )


def _undo(found: _Found, release: str, served: Instance | None, *, kept: bool) -> tuple[Operation, ...]:
    """Away with the new container (of `release`, no other); what was kept comes back and is proven again.

    `served`: the spec of the kept container, where its record is there.
    """
    away = _engine("remove new", RemoveContainer(container=found.name, release=release))
    if not kept:
        return (away,)
    back = (
        away,
        _engine("put back", RenameContainer(container=found.old_name, to=found.name)),
        _engine("start old", StartContainer(container=found.name)),
    )
    return back if served is None else (*back, _wait(found.name, served, ()))


def _wait(container: str, instance: Instance, diagnose: tuple[Diagnosis, ...]) -> Wait:
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


def _proof(found: _Found, wanted: Instance, diagnose: tuple[Diagnosis, ...]) -> tuple[Operation, ...]:
    return (
        _engine("start", StartContainer(container=found.name)),
        _wait(found.name, wanted, diagnose),
        _engine("serve", RestartPolicy(container=found.name, policy=SERVING_POLICY)),
        _engine("clear", RemoveContainer(container=found.old_name)),
    )


def _written(context: HostContext, wanted: Instance, rollout: Rollout) -> tuple[Operation, ...]:
    """The release and the secrets, on the host before anything is created."""
    record = Record(
        id="record",
        deadline_s=_ENGINE_S,
        deployment=context.deployment.name,
        release=rollout.release,
        host=context.host.name,
        origin=rollout.origin,
        weights_dir=rollout.weights_dir,
        instances=rollout.instances,
    )
    puts = tuple(
        Put(id=f"secret:{file.name}", deadline_s=30, path=file.path, mode="0600", content=file.secret)
        for file in wanted.container.secrets
    )
    return (record, *puts)


def _removal(context: HostContext, name: str) -> Change:
    container = context.facts.containers[name]
    mark = container.mark
    secrets = {"deployment": context.deployment.name, "container": name.removesuffix("_old")}
    return Change(
        id=f"container:{name}",
        phase="replace",
        step="container",
        subject=mark.model if mark else name,
        action="remove",
        why="not in the manifest any more",
        summary=f"container {name}",
        before=Fingerprint(equals={pointer("containers", name, "id"): container.id}),
        after=Fingerprint(equals={pointer("containers", name): None}),
        operations=(
            _engine("stop", StopContainer(container=name, grace_s=30)),
            _engine("remove", RemoveContainer(container=name)),
            script("forget-secrets", secrets, id="forget secrets", deadline_s=30),
        ),
        revert=None,
    )


def _before(found: _Found) -> Fingerprint:
    equals: dict[str, object] = {}
    for name, container in ((found.name, found.current), (found.old_name, found.old)):
        if container is None:
            equals[pointer("containers", name)] = None
        else:
            equals[pointer("containers", name, "id")] = container.id
            equals[pointer("containers", name, "running")] = container.running
    return Fingerprint(equals=equals)


def _after(found: _Found, release: str) -> Fingerprint:
    return Fingerprint(
        equals={
            pointer("containers", found.name, "mark", "release"): release,
            pointer("containers", found.name, "running"): True,
            pointer("containers", found.name, "restart_policy"): SERVING_POLICY,
            pointer("containers", found.old_name): None,
        }
    )


def _why(found: _Found, diff: tuple[FieldDiff, ...]) -> str:
    if found.current is None:
        return "an interrupted change left only the old container" if found.old else "not on the host"
    if found.recorded is None:
        return "its release record is lost"
    first = next((field for field in diff if not field.field.startswith("container.")), None)
    return f"{first.field} differs" if first else "its settings differ"


def _summary(wanted: Instance) -> str:
    publish = wanted.container.publish[0]
    return f"{wanted.backend} on {publish.address}:{publish.port}"


def _engine(id: str, request: EngineRequest) -> Engine:
    grace = request.grace_s if isinstance(request, StopContainer) else 0
    return Engine(id=id, deadline_s=_ENGINE_S + grace, request=request)
