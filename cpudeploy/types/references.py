"""Image references: text in, their normalised parts out, or what is wrong with the text. Pure.

Docker's short forms are made explicit once, here (`vllm/x:tag` is `docker.io/vllm/x:tag`), so that
the manifest, mirror rules, logins and releases all speak of one name. What was not written is not
added: a reference without a tag has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DOCKER_HUB = "docker.io"
HUB_ALIASES = ("index.docker.io", "registry-1.docker.io")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_LONGEST = 512


class BadReference(ValueError):
    """Why a text is no image reference, and what to write."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(what)
        self.what = what
        self.do = do


@dataclass(frozen=True)
class Reference:
    """A normalised reference: `registry` is host[:port], `repository` the path below it.

    With a digest the tag is only a name for people.
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


def parse_reference(text: str) -> Reference:
    """The normalised form of a reference as people write it. Raises BadReference naming the wrong part."""
    if "://" in text:
        raise BadReference("an image reference has no scheme", "leave out the part before ://")
    if len(text) > _LONGEST:
        raise _wrong(f"it has more than {_LONGEST} characters", _FORM)
    rest, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise _wrong(f"`{digest}` is not a digest", "write @sha256: and 64 hexadecimal digits")
    # A colon after the last slash begins a tag; one before it is a port.
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _wrong(f"`{tag}` is not a tag", "use letters, digits, `_`, `.` and `-`, at most 128")
    registry, repository = _split(f"{head}{slash}{last}")
    if not _DOMAIN.fullmatch(registry):
        raise _wrong(f"`{registry}` is not a registry's address", "write host or host:port")
    if not _PATH.fullmatch(repository):
        if _PATH.fullmatch(repository.lower()):
            lower = f"write {repository.lower()} if that is what the registry has"
            raise BadReference("repository names are lower case", lower)
        raise _wrong(f"`{repository}` is not a repository name", _FORM)
    return Reference(registry, repository, tag=tag if colon else None, digest=digest if at else None)


def is_registry(component: str) -> bool:
    """Whether what stands before the first slash is a registry: only with a dot or a port, or localhost."""
    return component == "localhost" or any(mark in component for mark in ".:")


_FORM = "write registry/repository:tag, such as ghcr.io/ggml-org/llama.cpp:server-b9000"


def _split(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if not slash or not is_registry(first):
        registry, repository = DOCKER_HUB, name
    else:
        registry, repository = (DOCKER_HUB if first in HUB_ALIASES else first), rest
    if registry == DOCKER_HUB and repository and "/" not in repository:
        repository = f"library/{repository}"
    return registry, repository


def _wrong(what: str, do: str) -> BadReference:
    return BadReference(f"not an image reference: {what}", do)
