"""An engine image on a host: pulled by digest from the first place that has it."""

from __future__ import annotations

import msgspec

from ..types.base import Unknown
from ..types.facts import Disk
from ..types.operation import Engine, PullImage
from ..types.plan import Change, Fingerprint
from ..types.resolved import ResolvedImage
from ..types.words import decimal_size
from .context import ENGINE_ROOT, HostContext, pointer

_PULL_S = 7200
_UNPACKED = 4
"""Layers unpack to about three times their compressed size, beside the download itself."""


def image_changes(context: HostContext, backend: str, image: ResolvedImage) -> tuple[Change, ...]:
    """Pull `image` unless the host holds its digest, from whichever place it came. Where too little is known
    of it or of the host, the change says what is missing and can't be carried out."""
    facts = context.facts
    if any(place.digest in facts.images for place in image.places) or image.digest in facts.images:
        return ()
    place = image.places[0] if image.places else None
    origin = f"   from {place.registry}" if place else ""
    trust = "" if image.authority != "mirror" else " · unverified: only a mirror told it"
    change = Change(
        id=f"image:{backend}",
        phase="fetch",
        step="image",
        subject="image",
        action="create",
        why=f"backend {backend}",
        summary=f"{image.reference}{origin} · {_size(image)} · {_digest(image)}{trust}",
        before=Fingerprint(),
        after=Fingerprint(),
        operations=(),
        revert=(),
    )
    size, arch = image.size, facts.os.arch
    missing = {
        "digest": image.digest,
        "size": size,
        "platform": arch,
        "place to pull it from": place or Unknown(unknown="none is known"),
    }
    why = [f"{what}: {value.unknown}" for what, value in missing.items() if isinstance(value, Unknown)]
    if why or place is None or isinstance(size, Unknown):
        return (msgspec.structs.replace(change, unknown=f"it can't be pulled: {'; '.join(why)}"),)
    key = pointer("images", place.digest)
    root = facts.engine.root or ENGINE_ROOT
    at_least = {}
    if isinstance(facts.disks.get(root), Disk):
        at_least[pointer("disks", root, "free")] = size * _UNPACKED
    pull = PullImage(places=image.places, platform=f"linux/{arch}", size=size)
    return (
        msgspec.structs.replace(
            change,
            before=Fingerprint(equals={key: None}, at_least=at_least),
            after=Fingerprint(at_least={f"{key}/size": 1}),
            operations=(Engine(id="pull", deadline_s=_PULL_S, request=pull),),
        ),
    )


def _size(image: ResolvedImage) -> str:
    if isinstance(image.size, Unknown):
        return f"size unknown ({image.size.unknown})"
    return f"{decimal_size(image.size)} to pull"


def _digest(image: ResolvedImage) -> str:
    if isinstance(image.digest, Unknown):
        return f"digest unknown ({image.digest.unknown})"
    return f"{image.digest[:19]}…"
