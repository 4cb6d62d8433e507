"""What hosts' facts already tell about images and weights, for when the outside world doesn't. Pure.

Release documents come from hosts: any shape is possible, and what does not fit is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..types.deployment import Backend, Deployment, HuggingFace, ModelScope
from ..types.facts import Facts
from ..types.references import DIGEST
from ..types.release import by_age
from .images import Known
from .references import parse

_SHOWN = 7


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


@dataclass(frozen=True)
class HeldTree:
    """A model's files as hosts hold them. `sums`: file → sha256; `source` and `revision` as released."""

    tree: str
    source: str
    revision: str
    sums: Mapping[str, str]


def source_text(source: HuggingFace | ModelScope, commit: str) -> str:
    """How releases name what a Hub was asked for and what it told: `huggingface org/name@main (a1b2c3d)`."""
    return f"{_asked(source)} ({commit[:_SHOWN]})"


def held_tree(
    deployment: Deployment, source: HuggingFace | ModelScope, facts: Mapping[str, Facts]
) -> HeldTree | None:
    """The files that the last releases had from this very source, if every host placed to have them holds
    them all, unchanged since they were hashed."""
    found = {
        _held(deployment.name, placement.model, source, facts[placement.host])
        if placement.host in facts
        else None
        for placement in deployment.placements
        if placement.source == source
    }
    if len(found) != 1 or (only := found.pop()) is None:
        return None
    tree, text, sums = only
    return HeldTree(tree, text, text.rpartition("(")[2].rstrip(")"), dict(sums))


def _held(
    deployment: str, model: str, source: HuggingFace | ModelScope, facts: Facts
) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    releases = _dict(facts.releases.get(deployment))
    sums = {blob.inode: sha256 for sha256, blob in facts.weights.blobs.items() if blob.verified}
    for name in reversed(by_age(releases)):
        for instance in _dict(_dict(releases[name]).get("instances")).values():
            its = _dict(instance)
            text, tree = str(its.get("source")), str(its.get("tree"))
            if its.get("model") != model or not text.startswith(f"{_asked(source)} ("):
                continue
            files = facts.weights.trees.get(tree, {})
            if files and all(inode in sums for inode in files.values()):
                return tree, text, tuple((file, sums[inode]) for file, inode in sorted(files.items()))
    return None


def _asked(source: HuggingFace | ModelScope) -> str:
    kind = "huggingface" if isinstance(source, HuggingFace) else "modelscope"
    return f"{kind} {source.repo}@{source.revision}"


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
