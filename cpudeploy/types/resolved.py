"""What the world outside the hosts said: digests, revisions, files, headers, each with its origin.

Built by `resolve/` on the controller; read by sizing and plan. Nothing in here drifts once written
into a plan: references carry digests, files carry sha256. What nobody told is `Unknown`: `resolve/` never
leaves that in what it was asked for; documents made from published figures do.
"""

from __future__ import annotations

from typing import Literal

from .base import Count, SecretRef, Struct, Unknown
from .shape import ModelShape, Tensors, Variant


class Place(Struct, frozen=True, kw_only=True):
    """One place an image can be pulled from, and how the engine must speak to it. `reference` is
    `repository@digest`, the name under which the engine will hold it.

    `registry` is the host[:port] part; `login` the scope of the manifest's registry entry, if any.
    """

    reference: str
    digest: str
    registry: str
    insecure: bool = False
    login: str | None = None


class ResolvedImage(Struct, frozen=True, kw_only=True):
    """An image reference turned into content.

    `reference` is the normalised original. `digest` is the one trusted, by `authority`; `places` in
    the order to try (those that answered at resolve time first). `platforms` as os/arch[/variant];
    `size` is the sum of compressed layers for the platform asked, in bytes.
    """

    reference: str
    digest: str | Unknown
    authority: Literal["manifest", "origin", "release", "mirror"]
    places: tuple[Place, ...]
    platforms: tuple[str, ...]
    size: Count | Unknown
    notes: tuple[str, ...] = ()

    def built_for(self, arch: str | Unknown) -> bool:
        """Whether it has a platform of linux and that architecture; true where either side is not known."""
        if isinstance(arch, Unknown) or not self.platforms:
            return True
        return any(platform.split("/")[:2] == ["linux", arch] for platform in self.platforms)


class WeightFile(Struct, frozen=True, kw_only=True, tag="file", tag_field="kind"):
    """One file of a model. `urls` in the order to try; `token` goes to `token_for` only."""

    name: str
    size: Count
    sha256: str
    urls: tuple[str, ...]
    token: SecretRef | None = None
    token_for: str = ""
    """Prefix of the URLs the token may be sent to."""
    token_cookie: str = ""
    """The cookie it is sent in besides the Authorization header, or empty."""
    upload: str = ""
    """Where the file lies on the controller (absolute) when it is sent from there, or empty."""


class UnreadFile(Struct, frozen=True, kw_only=True, tag="unread", tag_field="kind"):
    """A file that nobody was asked for: size or checksum are not known, so that it can be planned with but
    never fetched."""

    name: str
    size: Count | Unknown
    sha256: str | Unknown


class ResolvedWeights(Struct, frozen=True, kw_only=True):
    """A model's files at one revision. `tree` is the id of its folder on hosts, made from repository,
    revision and the files' sha256; `entry` is the file an engine is pointed at, or empty for a folder.
    `shape` and `tensors` are None where nobody can read them from here (a `path:` on a host).
    `source` is for people: `huggingface Qwen/Qwen3-4B-GGUF@main (a1b2c3d)`. `tree` is empty where the files
    have no folder of ours (`path:`) or a checksum is unknown.
    """

    tree: str
    source: str
    revision: str
    files: tuple[WeightFile | UnreadFile, ...]
    entry: str
    shape: ModelShape | None = None
    tensors: Tensors | None = None
    projector: str = ""
    """The file among `files` that lets the model see (`mmproj`), or empty."""
    variants: tuple[Variant, ...] = ()
    """What else the repository has of this model."""
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int | Unknown:
        """Bytes of all files; unknown where one of them is."""
        total = 0
        for file in self.files:
            if isinstance(file.size, Unknown):
                return file.size
            total += file.size
        return total


SecretState = Literal["same", "changed", "unknown"]


class Resolved(Struct, frozen=True, kw_only=True):
    """Keyed as plan looks them up: images by backend name, weights by `model@host`, secrets by
    `host/deployment/model/instance/file` (state of the value against the host's running release), and
    `held_secrets` the same against what is held there.
    """

    images: dict[str, ResolvedImage] = {}
    weights: dict[str, ResolvedWeights] = {}
    secrets: dict[str, SecretState] = {}
    held_secrets: dict[str, SecretState] = {}
