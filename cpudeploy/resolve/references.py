"""Mirror rules and login scopes, against image references. Pure.

In: a reference and the manifest's rules. Out: the places to try, in order. Nothing here asks a
registry anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import RegistryError
from ..types.deployment import ImageMirror
from ..types.references import (
    DOCKER_HUB,
    HUB_ALIASES,
    BadReference,
    Reference,
    is_registry,
    parse_reference,
)


@dataclass(frozen=True)
class Candidate:
    """One place an image may be had from. `own_digest`: what this mirror's own push is known to be.

    `insecure`: plain HTTP. `origin`: the address the manifest wrote, not a mirror of it.
    """

    reference: Reference
    insecure: bool = False
    origin: bool = False
    own_digest: str | None = None


def parse(text: str) -> Reference:
    """The normalised form of a reference. Raises RegistryError naming the wrong part."""
    try:
        return parse_reference(text)
    except BadReference as error:
        raise RegistryError(error.what, where=f"image {text}", do=error.do) from None


def rewrite(reference: Reference, mirrors: Iterable[ImageMirror]) -> tuple[Candidate, ...]:
    """The places to try for `reference`: every matching rule's in order, at last the origin itself."""
    candidates: list[Candidate] = []
    for rule in mirrors:
        rest = _rest(reference, rule.match)
        if rest is None:
            continue
        for place in rule.places:
            insecure = place.startswith("http://")
            address = place.removeprefix("http://").removeprefix("https://")
            found = parse(f"{address.rstrip('/')}/{rest}" if rest else address.rstrip("/"))
            candidates.append(
                Candidate(
                    reference=replace(found, tag=reference.tag, digest=reference.digest),
                    insecure=insecure,
                    own_digest=rule.digests.get(reference.tag) if reference.tag else None,
                )
            )
    candidates.append(Candidate(reference=reference, origin=True))
    unique = {(candidate.reference, candidate.insecure): candidate for candidate in reversed(candidates)}
    return tuple(reversed(unique.values()))


def covers(scope: str, name: str) -> bool:
    """Whether a login's scope (a registry, or registry/project) speaks for the repository `name`."""
    registry, slash, project = scope.strip("/").partition("/")
    if registry in HUB_ALIASES:
        registry = DOCKER_HUB
    full = f"{registry}{slash}{project}"
    return name == full or name.startswith(f"{full}/")


def _rest(reference: Reference, match: str) -> str | None:
    """What follows a rule's prefix in the reference; empty for a whole-repository rule; None: no match."""
    if match.endswith("/"):
        first, _, below = match.partition("/")
        prefix = match if is_registry(first) else f"{DOCKER_HUB}/{match}"
        if first in HUB_ALIASES:
            prefix = f"{DOCKER_HUB}/{below}"
        return reference.name[len(prefix) :] if reference.name.startswith(prefix) else None
    return "" if parse(match).name == reference.name else None
