"""Image manifests: a registry's JSON in, checked types out. Pure.

Understands Docker's schema 2 and OCI's manifests and indexes. Whatever else a registry sends is
refused with words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from ..errors import RegistryError
from ..types.references import DIGEST

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))


class Platform(msgspec.Struct, frozen=True):
    """What an image runs on, in the engine's words."""

    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A pointer to content: its digest and its size in bytes."""

    digest: str
    size: int
    platform: Platform | None = None


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    schema_version: int
    media_type: str = ""
    manifests: list[Descriptor] = []
    config: Descriptor | None = None
    layers: list[Descriptor] = []


@dataclass(frozen=True)
class Manifest:
    """One manifest as the registry has it. `children` of an index, else `config` and layers' `size`."""

    digest: str
    children: tuple[Descriptor, ...] = ()
    config: Descriptor | None = None
    size: int = 0

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """What an index offers; empty for a single manifest, whose config tells."""
        return tuple(child.platform for child in self.children if child.platform is not None)

    def child(self, platform: Platform) -> Descriptor:
        """The index's entry for one of its `platforms`."""
        return next(child for child in self.children if child.platform == platform)


def read_manifest(body: bytes, *, told: str | None, asked: str | None, where: str) -> Manifest:
    """The manifest in `body`, its digest computed from the bytes.

    `told` is the registry's own word (Docker-Content-Digest), `asked` the digest wanted; a body that
    is neither's is a RegistryError: nobody's claim replaces the content.
    """
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    for claim in (asked, told):
        if claim and claim.startswith("sha256:") and claim != digest:
            raise RegistryError(
                f"sent a manifest with digest {digest} as {claim}",
                where=where,
                do="don't use this place: its content is not what it says",
            )
    try:
        document = msgspec.json.decode(body, type=_Document)
    except msgspec.MsgspecError as error:
        raise RegistryError(f"did not send an image manifest ({error})", where=where) from None
    if document.schema_version != 2:
        raise RegistryError(
            f"has this image in manifest format {document.schema_version} only",
            where=where,
            do="push it again with a current engine: engines no longer pull this format",
        )
    parts = [*document.manifests, *document.layers, *([document.config] if document.config else [])]
    if any(not DIGEST.fullmatch(part.digest) or part.size < 0 for part in parts):
        raise RegistryError("sent a manifest with a digest or size that can't be", where=where)
    if document.manifests or document.media_type in _INDEXES:
        # Attestations stand in an index beside the images, as platform unknown/unknown.
        return Manifest(digest, tuple(child for child in document.manifests if _is_image(child)))
    if document.config is None:
        raise RegistryError("sent a manifest without an image in it", where=where)
    return Manifest(digest, config=document.config, size=sum(layer.size for layer in document.layers))


def read_platform(config: bytes, *, digest: str, where: str) -> Platform:
    """The platform in an image's config blob, whose content must have `digest`."""
    if f"sha256:{hashlib.sha256(config).hexdigest()}" != digest:
        raise RegistryError(f"sent an image config that is not {digest}", where=where)
    try:
        return msgspec.json.decode(config, type=Platform)
    except msgspec.MsgspecError as error:
        raise RegistryError(f"did not send an image config ({error})", where=where) from None


def pick(platforms: Iterable[Platform], arch: str) -> Platform | None:
    """The platform an engine on linux/`arch` takes: the one without a variant before any other."""
    fitting = [each for each in platforms if each.os == "linux" and each.architecture == arch]
    return min(fitting, key=lambda each: each.variant, default=None)


def _is_image(child: Descriptor) -> bool:
    return child.platform is not None and child.platform.os not in ("", "unknown")
