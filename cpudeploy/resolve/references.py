"""Image references as text in, their normalised parts and the places to try out. Pure.

Docker's short forms are made explicit once, here (`vllm/x:tag` is `docker.io/vllm/x:tag`), so that
mirror rules, logins and releases all speak of one name. Nothing here asks a registry anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import RegistryError
from ..types.deployment import ImageMirror

DOCKER_HUB = "docker.io"
_HUB_ALIASES = ("index.docker.io", "registry-1.docker.io")

_DOMAIN = re.compile(r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::[0-9]{1,5})?")
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Reference:
    """A normalised reference: `registry` is host[:port], `repository` the path below it.

    With a digest the tag is only a name for people; without both the tag is `latest`.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """Registry and repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def api_host(self) -> str:
        """Where the registry's API answers; Docker Hub's name and address differ."""
        return "registry-1.docker.io" if self.registry == DOCKER_HUB else self.registry

    @property
    def wanted(self) -> str:
        """What a registry is asked for: the digest if there is one, else the tag."""
        return self.digest or self.tag or "latest"

    def at(self, digest: str) -> str:
        """`registry/repository@digest`, the only form an image is pulled by."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")


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
    """The normalised form of a reference as people write it. Raises RegistryError naming the wrong part."""
    rest, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise _wrong(text, f"`{digest}` is not a digest", "write @sha256: and 64 hexadecimal digits")
    # A colon after the last slash begins a tag; one before it is a port.
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _wrong(text, f"`{tag}` is not a tag", "use letters, digits, `_`, `.` and `-`, at most 128")
    registry, repository = _split(f"{head}{slash}{last}")
    if not _DOMAIN.fullmatch(registry):
        raise _wrong(text, f"`{registry}` is not a registry's address", "write host or host:port")
    if not _PATH.fullmatch(repository):
        raise _wrong(
            text,
            f"`{repository}` is not a repository name",
            "use lower-case letters, digits and `.`, `_`, `-`",
        )
    return Reference(
        registry=registry,
        repository=repository,
        tag=tag if colon else (None if at else "latest"),
        digest=digest if at else None,
    )


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
    if registry in _HUB_ALIASES:
        registry = DOCKER_HUB
    full = f"{registry}{slash}{project}"
    return name == full or name.startswith(f"{full}/")


def _rest(reference: Reference, match: str) -> str | None:
    """What follows a rule's prefix in the reference; empty for a whole-repository rule; None: no match."""
    if match.endswith("/"):
        first, _, below = match.partition("/")
        prefix = match if _is_domain(first) else f"{DOCKER_HUB}/{match}"
        if first in _HUB_ALIASES:
            prefix = f"{DOCKER_HUB}/{below}"
        return reference.name[len(prefix) :] if reference.name.startswith(prefix) else None
    return "" if parse(match).name == reference.name else None


def _split(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if not slash or not _is_domain(first):
        registry, repository = DOCKER_HUB, name
    else:
        registry, repository = (DOCKER_HUB if first in _HUB_ALIASES else first), rest
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return registry, repository


def _is_domain(component: str) -> bool:
    """Docker's rule: a dot, a port, an upper-case letter or `localhost` make the first part a registry."""
    return (
        component == "localhost" or any(mark in component for mark in ".:") or component != component.lower()
    )


def _wrong(text: str, what: str, do: str) -> RegistryError:
    return RegistryError(what, where=f"image {text}", do=do)
