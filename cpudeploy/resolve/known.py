"""What hosts' facts already tell about images and weights, for when the outside world doesn't. Pure.

Release documents come from hosts: any shape is possible, and what does not fit is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..types.deployment import Backend, Deployment
from ..types.facts import Facts
from ..types.references import DIGEST
from .images import Known
from .references import parse


def known_image(deployment: Deployment, backend: Backend, facts: Mapping[str, Facts]) -> Known:
    """Architectures of the backend's hosts, the digest last released, the digests all of them hold."""
    placed = {placement.host for placement in deployment.placements if placement.backend == backend.name}
    hosts = {host: facts[host] for host in sorted(placed) if host in facts}
    held = [frozenset(name.rpartition("@")[2] for name in each.images) for each in hosts.values()]
    complete = len(hosts) == len(placed)
    return Known(
        arches={
            host: each.os.arch if isinstance(each.os.arch, str) else None for host, each in hosts.items()
        },
        released=_released(deployment.name, str(parse(backend.image)), facts.values()),
        held=frozenset.intersection(*held) if held and complete else frozenset(),
    )


def held_blobs(facts: Mapping[str, Facts]) -> dict[str, int]:
    """Weights that some host holds and has verified: sha256 → bytes."""
    return {
        sha256: blob.size
        for each in facts.values()
        for sha256, blob in each.weights.blobs.items()
        if blob.verified
    }


def _released(deployment: str, reference: str, facts: Iterable[Facts]) -> str | None:
    """The digest that the newest release with this very reference ran, on any host."""
    newest: tuple[str, str] | None = None
    for each in facts:
        for release in _dict(each.releases.get(deployment)).values():
            created = str(_dict(release).get("created", ""))
            for instance in _dict(_dict(release).get("instances")).values():
                digest = str(_dict(_dict(instance).get("container")).get("image", "")).rpartition("@")[2]
                if _dict(instance).get("image_reference") == reference and DIGEST.fullmatch(digest):
                    newest = max(newest or (created, digest), (created, digest))
    return newest[1] if newest else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
