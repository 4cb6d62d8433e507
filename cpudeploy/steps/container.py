"""A model's container: created, replaced, proven again, its record restored, or removed. Decides which,
says why, and states before and after; the operations are `replace`'s, the ways back `undo`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..types.base import Unknown, digest
from ..types.deployment import Placement
from ..types.facts import Container
from ..types.names import base_name, container_name
from ..types.operation import Record
from ..types.origin import same_origin
from ..types.plan import Change, FieldDiff, Fingerprint
from ..types.release import Diagnosis, Instance, identity, read_release, release_number
from ..types.resolved import ResolvedImage
from .blocks import Rollout, recording
from .compare import cut_off, differences, drift, lost_networks, unlike
from .context import HostContext, pointer
from .fingerprints import after, as_found, before
from .found import Found, find, is_ours
from .replace import creating_first, drains, holding, proving, removing, replacing
from .undo import undoing
from .volume import refuse_foreign_volumes
from .way import Way, way

_SWAP_S = 1
"""The gap of a new one from beside, in whole seconds: well below in what was measured."""


@dataclass(frozen=True)
class _Need:
    """What has to be done about a container, and where it differs from what is wanted. `unplugged`: networks
    that it only has to be connected to again."""

    kind: Literal["nothing", "record", "prove", "replace"]
    diff: tuple[FieldDiff, ...] = ()
    unplugged: tuple[str, ...] = ()


def container_changes(
    context: HostContext,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    start_s: int,
) -> tuple[Change, ...]:
    """What brings the host to `wanted`; nothing when it already serves so. `start_s`: what a start of it
    usually takes. Pure.

    Raises HostError where the manifest says how it is to be replaced and that can't be, or where what has its
    name, or the name of a volume of its, is not ours.
    """
    refuse_foreign_volumes(context, wanted)
    found = find(context, container_name(context.deployment.name, wanted.model, wanted.instance))
    need = _need(context, found, wanted)
    if need.kind == "nothing":
        return ()
    if need.kind == "record":
        return (_record_again(context, found, wanted, rollout),)
    if need.kind == "prove":
        return (_prove(context, found, wanted, rollout, diagnose, need),)
    unknown = _not_known(context, wanted, image)
    if unknown:
        return (_only_told(found, wanted, need.diff, unknown),)
    if not found.settled.proven:
        return (_create(context, found, wanted, image, rollout, diagnose, need),)
    return (_replace(context, found, wanted, image, rollout, diagnose, need, start_s),)


def proven_already(context: HostContext, instances: Mapping[str, Instance]) -> tuple[str, ...]:
    """Names of those whose container is as wanted and has passed its gate, also where it is down now."""
    return tuple(
        name
        for name, wanted in instances.items()
        if _need(context, (found := find(context, name)), wanted).kind != "replace" and found.settled.proven
    )


def _need(context: HostContext, found: Found, wanted: Instance) -> _Need:
    """What is wanted against what stands there once everything unproven is undone."""
    stands = found.settled
    if stands.current is None:
        return _Need("replace")
    serves = found.up and found.proven and found.clean
    networks = context.facts.networks
    lost = lost_networks(stands.current, networks)
    if stands.recorded is None:
        diff = (*unlike(stands.current, wanted.container), *lost)
        if diff:
            return _Need("replace", diff)
        return _Need("record" if serves else "prove")
    diff = (
        *differences(stands.recorded, wanted, _secret_changed(context, wanted)),
        *drift(stands.current, stands.recorded.container),
        *lost,
    )
    unplugged = cut_off(stands.current, stands.recorded.container, networks)
    if unplugged and stands.proven and [field.field for field in diff] == ["networks"]:
        return _Need("prove", diff, unplugged)
    if diff:
        return _Need("replace", diff)
    return _Need("nothing" if serves else "prove")


def _create(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    need: _Need,
) -> Change:
    """Where nothing of it has served yet."""
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action=_action(found),
        why=_why(found, need.diff),
        summary=_summary(wanted),
        diff=need.diff,
        before=before(context, found),
        after=after(found, rollout.release),
        operations=creating_first(context, found, wanted, image, rollout, diagnose),
        revert=undoing(found, wanted, rollout.release, secret_changed=False),
        hold=holding(context, found.name, wanted, rollout.release),
    )


def _replace(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    need: _Need,
    start_s: int,
) -> Change:
    """Where something serves, or did before an interrupted change."""
    placement = _placement(context, wanted)
    chosen = way(
        context, found, wanted, rollout.instances, placement.replace if placement is not None else "auto"
    )
    changed = _secret_changed(context, wanted)
    serving = found.settled.recorded if found.settled.up else None
    drain_s = placement.drain_s if placement is not None else 0
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="update",
        why=_why(found, need.diff),
        summary=f"{_summary(wanted)} · {chosen.text}",
        diff=need.diff,
        before=before(context, found, memory=chosen.room),
        after=after(found, rollout.release),
        operations=replacing(
            context,
            found,
            wanted,
            image,
            rollout,
            diagnose,
            beside=chosen.beside,
            draining=drains(serving, found.name, wanted, drain_s, secret_changed=changed),
        ),
        revert=undoing(found, wanted, rollout.release, secret_changed=changed),
        gap_s=_gap(found, wanted, chosen, start_s),
        hold=None
        if not changed and _was_proven(context, found.name, wanted)
        else holding(context, found.name, wanted, rollout.release),
    )


def _gap(found: Found, wanted: Instance, chosen: Way, start_s: int) -> int | None:
    """Seconds without service because of the change; None where nothing serves anyway."""
    if not found.settled.up:
        return None
    return _SWAP_S if chosen.beside else wanted.gate.stable_s + start_s


def _placement(context: HostContext, wanted: Instance) -> Placement | None:
    """What the manifest says of a model here; None where it does not name it any more."""
    of = (wanted.model, context.host.name)
    return next((each for each in context.deployment.placements if (each.model, each.host) == of), None)


def _secret_changed(context: HostContext, wanted: Instance) -> bool:
    key = f"{context.host.name}/{context.deployment.name}/{wanted.model}/{wanted.instance}/api_key"
    return context.resolved.secrets.get(key) == "changed"


def _was_proven(context: HostContext, name: str, wanted: Instance) -> bool:
    """Whether the very same has passed its gate on this host before: then its failing is no fault of it."""
    releases = context.facts.releases.get(context.deployment.name, {})
    known = (read_release(document) for document in releases.values())
    return any(
        release is not None
        and name in release.proven
        and name in release.instances
        and identity(release.instances[name]) == identity(wanted)
        for release in known
    )


def _action(found: Found) -> Literal["create", "update"]:
    return "create" if found.settled.current is None else "update"


def _not_known(context: HostContext, wanted: Instance, image: ResolvedImage) -> str:
    """What would have to be known to create the container; empty when all is."""
    if isinstance(image.digest, Unknown):
        return f"the image's digest is unknown: {image.digest.unknown}"
    for file in context.resolved.weights[f"{wanted.model}@{context.host.name}"].files:
        if isinstance(file.sha256, Unknown):
            return f"the checksum of {file.name} is unknown: {file.sha256.unknown}"
    return ""


def _only_told(found: Found, wanted: Instance, diff: tuple[FieldDiff, ...], unknown: str) -> Change:
    """What would become of the container, for people; nobody can carry it out."""
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action=_action(found),
        why=_why(found, diff),
        summary=_summary(wanted),
        diff=diff,
        before=as_found(found),
        after=Fingerprint(),
        operations=(),
        revert=(),
        unknown=unknown,
    )


def removal_changes(context: HostContext, wanted_names: frozenset[str], origin: str) -> tuple[Change, ...]:
    """Remove our containers that the manifest no longer names, with what was kept of them. One that was
    applied from another place than `origin` is said to be: two manifests may have taken the same name."""
    return tuple(
        removal(context, name, f"not in the manifest any more{_elsewhere(context, container, origin)}")
        for name, container in sorted(context.facts.containers.items())
        if is_ours(context, container) and base_name(name) not in wanted_names
    )


def _elsewhere(context: HostContext, container: Container, origin: str) -> str:
    releases = context.facts.releases.get(context.deployment.name, {})
    release = read_release(releases.get(container.mark.release)) if container.mark else None
    if release is None or same_origin(release.origin, origin):
        return ""
    return f"; it was applied from {release.origin}"


def removal(context: HostContext, name: str, why: str) -> Change:
    """One container of ours, away for good with its secrets."""
    container = context.facts.containers[name]
    return Change(
        id=f"container:{name}",
        phase="replace",
        step="container",
        subject=container.mark.model if container.mark else name,
        action="remove",
        why=why,
        summary=f"container {name}",
        before=Fingerprint(equals={pointer("containers", name, "id"): container.id}),
        after=Fingerprint(equals={pointer("containers", name): None}),
        operations=removing(context, name),
        revert=None,
    )


def next_release(context: HostContext, instances: dict[str, Instance]) -> str:
    """`0007-1a2b3c4d`: one above the highest the host knows, and a digest of what it says."""
    known = [*context.facts.releases.get(context.deployment.name, {})]
    known += [
        container.mark.release
        for container in context.facts.containers.values()
        if container.mark is not None and is_ours(context, container)
    ]
    return f"{max(map(release_number, known), default=0) + 1:04d}-{digest(instances)[:8]}"


def _prove(
    context: HostContext,
    found: Found,
    wanted: Instance,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    need: _Need,
) -> Change:
    """The right container, but down, cut off, never proven or not alone: what was left beside it is undone,
    then it is started and gated, and its record written anew where that is lost. One that never served is
    taken away again when it fails."""
    stands = found.settled
    release = _release_of(stands)
    served = stands.proven
    plugged = {name: context.facts.networks[name].id for name in need.unplugged}
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="gate",
        why=_why(found, need.diff),
        summary=_summary(wanted),
        diff=need.diff,
        before=as_found(found),
        after=after(found, release, plugged),
        operations=(
            *(() if stands.recorded is not None else (_recording_anew(context, stands, wanted, rollout),)),
            *proving(context, found, wanted, release, diagnose, need.unplugged),
        ),
        revert=() if served else undoing(stands, wanted, release, secret_changed=False),
        hold=None if served else holding(context, found.name, wanted, release),
    )


def _record_again(context: HostContext, found: Found, wanted: Instance, rollout: Rollout) -> Change:
    """Only the record is lost: the container is as wanted by all that inspect tells, and serves."""
    release = _release_of(found)
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="gate",
        why="its release record was lost; by what the engine tells the container is as wanted",
        summary="written anew, nothing restarts",
        before=Fingerprint(equals={pointer("containers", found.name, "mark", "release"): release}),
        after=Fingerprint(
            equals={
                pointer("releases", context.deployment.name, release, "id"): release,
                pointer("containers", found.name, "mark", "release"): release,
            }
        ),
        operations=(_recording_anew(context, found, wanted, rollout),),
        revert=(),
    )


def _recording_anew(context: HostContext, stands: Found, wanted: Instance, rollout: Rollout) -> Record:
    """The release of what stands there, as far as it is known without its record."""
    proven = (stands.name,) if stands.proven else ()
    instances = {stands.name: wanted}
    return recording(
        context, Rollout(_release_of(stands), rollout.origin, rollout.weights_dir, instances, proven)
    )


def _release_of(found: Found) -> str:
    if found.current is None or found.current.mark is None:
        raise ValueError(f"{found.name} has no release")
    return found.current.mark.release


def _why(found: Found, diff: tuple[FieldDiff, ...]) -> str:
    current = found.current
    if current is None:
        return "an interrupted change left only the old container" if found.old else "not on the host"
    shown = next((field for field in diff if not field.field.startswith("container.")), None)
    if diff:
        return f"{shown.field} differs" if shown else "its settings differ"
    if found.old is not None and not found.proven:
        return "an interrupted change left a new container that was never proven"
    if not current.running:
        return f"stopped with exit code {current.exit_code}"
    if not found.up:
        return f"{current.status}, after {current.restarts} restarts"
    if not found.proven:
        return "started, but its gate was never passed"
    which = "the old" if found.old is not None else "a new"
    return f"an interrupted change left {which} container behind"


def _summary(wanted: Instance) -> str:
    publish = wanted.container.publish[0]
    return f"{wanted.backend} on {publish.address}:{publish.port}"
