"""An engine image on a host: pulled by digest from the first place that has it."""

from __future__ import annotations

from ..errors import HostError
from ..types.facts import Disk
from ..types.operation import Engine, PullImage
from ..types.plan import Change, Fingerprint
from ..types.resolved import ResolvedImage
from .context import GIB, HostContext, decimal_size, pointer

_PULL_S = 7200
_UNPACKED = 4
"""Layers unpack to about three times their compressed size, beside the download itself."""


def image_changes(context: HostContext, backend: str, image: ResolvedImage) -> tuple[Change, ...]:
    """Pull `image` unless the host holds its digest. Raises HostError when the disk is too small."""
    facts = context.facts
    if any(place.digest in facts.images for place in image.places) or image.digest in facts.images:
        return ()
    key = pointer("images", image.places[0].digest)
    needed = image.size * _UNPACKED + GIB
    at_least = {}
    root = facts.engine.root or "/var/lib/docker"
    disk = facts.disks.get(root)
    if isinstance(disk, Disk):
        at_least[pointer("disks", root, "free")] = needed
        if disk.free < needed:
            raise HostError(
                f"{root} has {decimal_size(disk.free)} free, "
                f"{image.reference} needs about {decimal_size(needed)}",
                where=facts.host,
                do="free disk space, or move the engine's data root",
            )
    place = image.places[0]
    trust = "" if image.authority != "mirror" else " · unverified: only a mirror told it"
    return (
        Change(
            id=f"image:{backend}",
            phase="fetch",
            step="image",
            subject="image",
            action="create",
            why=f"backend {backend}",
            summary=(
                f"{image.reference}   from {place.registry} · {decimal_size(image.size)} to pull · "
                f"{image.digest[:19]}…{trust}"
            ),
            before=Fingerprint(equals={key: None}, at_least=at_least),
            after=Fingerprint(at_least={f"{key}/size": 1}),
            operations=(
                Engine(
                    id="pull",
                    deadline_s=_PULL_S,
                    request=PullImage(
                        places=image.places, platform=f"linux/{facts.os.arch}", size=image.size
                    ),
                ),
            ),
            revert=(),
        ),
    )
