"""An engine image on a host: pulled by digest from the first place that has it."""

from __future__ import annotations

from ..types.facts import Disk
from ..types.operation import Engine, PullImage
from ..types.plan import Change, Fingerprint
from ..types.resolved import ResolvedImage
from .context import ENGINE_ROOT, HostContext, decimal_size, pointer

_PULL_S = 7200
_UNPACKED = 4
"""Layers unpack to about three times their compressed size, beside the download itself."""


def image_changes(context: HostContext, backend: str, image: ResolvedImage) -> tuple[Change, ...]:
    """Pull `image` unless the host holds its digest, from whichever place it came."""
    facts = context.facts
    if any(place.digest in facts.images for place in image.places) or image.digest in facts.images:
        return ()
    key = pointer("images", image.places[0].digest)
    root = facts.engine.root or ENGINE_ROOT
    at_least = {}
    if isinstance(facts.disks.get(root), Disk):
        at_least[pointer("disks", root, "free")] = image.size * _UNPACKED
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
