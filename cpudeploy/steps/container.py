"""A model's container: created, replaced, proven again, its record restored, or removed. Decides which,
says why, and states before and after; the operations are `replace`'s.
"""

from __future__ import annotations

import msgspec

from ..types.base import Unknown, digest
from ..types.facts import Container, Disk
from ..types.names import container_name
from ..types.operation import Operation
from ..types.plan import Change, FieldDiff, Fingerprint
from ..types.release import Diagnosis, Instance, read_release
from ..types.resolved import ResolvedImage
from .compare import differences, drift, lost_networks, unlike
from .context import ENGINE_ROOT, MIB, HostContext, pointer
from .found import Found, find, is_ours
from .replace import SERVING_POLICY, Rollout, forgetting, proving, recording, replacing, stopping, undoing

_CONTAINER_BYTES = 64 * MIB
"""Disk of a new container: its layer, its configuration, its first logs."""

_LOAD_BYTES_PER_S = 200_000_000
"""How fast a model is read, for the estimate of a gap in service."""


def container_changes(
    context: HostContext,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    load_bytes: int,
) -> tuple[Change, ...]:
    """What brings the host to `wanted`; nothing when it already serves so. Pure."""
    found = find(context, container_name(context.deployment.name, wanted.model, wanted.instance))
    state = f"{context.host.name}/{context.deployment.name}/{wanted.model}/{wanted.instance}/api_key"
    secret_changed = context.resolved.secrets.get(state) == "changed"
    if found.current is not None:
        if found.recorded is None:
            diff = (
                *unlike(found.current, wanted.container),
                *lost_networks(found.current, context.facts.networks),
            )
            if not diff:
                return (_record_again(context, found, wanted, rollout),)
        else:
            by_hand = (
                *drift(found.current, found.recorded.container),
                *lost_networks(found.current, context.facts.networks),
            )
            diff = (*differences(found.recorded, wanted, secret_changed), *by_hand)
            if not diff and found.up and found.proven and found.old is None:
                return ()
            if not diff:
                return (_prove(context, found, wanted, diagnose, secret_changed),)
    else:
        diff = ()
    is_new = found.current is None and found.old is None
    unknown = _not_known(context, wanted, image)
    if unknown:
        return (_only_told(found, wanted, diff, unknown),)
    return (
        Change(
            id=f"container:{found.name}",
            phase="replace",
            step="container",
            subject=wanted.model,
            action="create" if is_new else "update",
            why=_why(found, diff),
            summary=_summary(wanted) + ("" if is_new else " · stop first"),
            diff=diff,
            before=msgspec.structs.replace(_before(found), at_least=_room(context)),
            after=_after(found, rollout.release),
            operations=replacing(context, found, wanted, image, rollout, diagnose),
            revert=undoing(
                context,
                found,
                rollout.release,
                kept=found.proven or found.old is not None,
                secret_changed=secret_changed,
            ),
            gap_s=None if is_new else wanted.gate.stable_s + 3 + load_bytes // _LOAD_BYTES_PER_S,
        ),
    )


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
    is_new = found.current is None and found.old is None
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="create" if is_new else "update",
        why=_why(found, diff),
        summary=_summary(wanted),
        diff=diff,
        before=_before(found),
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
        if is_ours(context, container) and name.removesuffix("_old") not in wanted_names
    )


def _elsewhere(context: HostContext, container: Container, origin: str) -> str:
    releases = context.facts.releases.get(context.deployment.name, {})
    release = read_release(releases.get(container.mark.release)) if container.mark else None
    return f"; it was applied from {release.origin}" if release and release.origin != origin else ""


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
        operations=(*stopping(name, 30), forgetting(context, name.removesuffix("_old"))),
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
    numbers = [int(head) for head in (release.partition("-")[0] for release in known) if head.isdecimal()]
    return f"{max(numbers, default=0) + 1:04d}-{digest(instances)[:8]}"


def _prove(
    context: HostContext,
    found: Found,
    wanted: Instance,
    diagnose: tuple[Diagnosis, ...],
    secret_changed: bool,
) -> Change:
    """The right container, but down or never proven: start it, gate it, clear what was kept."""
    release = _release_of(found)
    revert: tuple[Operation, ...] = ()
    if found.old is not None and not found.proven:
        revert = undoing(context, found, release, kept=True, secret_changed=secret_changed)
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="gate",
        why=_why(found, ()),
        summary=_summary(wanted),
        before=_before(found),
        after=_after(found, release),
        operations=proving(context, found, wanted, release, diagnose),
        revert=revert,
    )


def _record_again(context: HostContext, found: Found, wanted: Instance, rollout: Rollout) -> Change:
    """Only the record is lost: the container is as wanted by all that inspect tells, and stays."""
    release = _release_of(found)
    record = recording(context, Rollout(release, rollout.origin, rollout.weights_dir, {found.name: wanted}))
    return Change(
        id=f"container:{found.name}",
        phase="replace",
        step="container",
        subject=wanted.model,
        action="gate",
        why="its release record was lost; the container is as wanted",
        summary="written anew, nothing restarts",
        before=Fingerprint(equals={pointer("containers", found.name, "mark", "release"): release}),
        after=Fingerprint(
            equals={
                pointer("releases", context.deployment.name, release, "id"): release,
                pointer("containers", found.name, "mark", "release"): release,
            }
        ),
        operations=(record,),
        revert=(),
    )


def _release_of(found: Found) -> str:
    if found.current is None or found.current.mark is None:
        raise ValueError(f"{found.name} has no release")
    return found.current.mark.release


def _before(found: Found) -> Fingerprint:
    equals: dict[str, object] = {}
    for name, container in ((found.name, found.current), (found.old_name, found.old)):
        if container is None:
            # The field, not the whole: a mismatch is told, and a container is a page long.
            equals[pointer("containers", name, "id")] = None
        else:
            equals[pointer("containers", name, "id")] = container.id
            # Not the status: one that restarts endlessly is now restarting, now running.
            equals[pointer("containers", name, "running")] = container.running
    return Fingerprint(equals=equals)


def _room(context: HostContext) -> dict[str, int]:
    """What an engine needs to create a container: on a full disk the old one would be stopped in vain."""
    root = context.facts.engine.root or ENGINE_ROOT
    known = isinstance(context.facts.disks.get(root), Disk)
    return {pointer("disks", root, "free"): _CONTAINER_BYTES} if known else {}


def _after(found: Found, release: str) -> Fingerprint:
    return Fingerprint(
        equals={
            pointer("containers", found.name, "mark", "release"): release,
            pointer("containers", found.name, "status"): "running",
            pointer("containers", found.name, "restart_policy"): SERVING_POLICY,
            pointer("containers", found.old_name, "id"): None,
        }
    )


def _why(found: Found, diff: tuple[FieldDiff, ...]) -> str:
    current = found.current
    if current is None:
        return "an interrupted change left only the old container" if found.old else "not on the host"
    shown = next((field for field in diff if not field.field.startswith("container.")), None)
    if diff:
        return f"{shown.field} differs" if shown else "its settings differ"
    if not current.running:
        return f"stopped with exit code {current.exit_code}"
    if not found.up:
        return f"{current.status}, after {current.restarts} restarts"
    if not found.proven:
        return "started, but its gate was never passed"
    return "an interrupted change left the old container behind"


def _summary(wanted: Instance) -> str:
    publish = wanted.container.publish[0]
    return f"{wanted.backend} on {publish.address}:{publish.port}"
