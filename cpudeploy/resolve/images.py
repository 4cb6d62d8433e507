"""An image reference becomes content: one trusted digest and the places that have it.

In: a reference, the manifest's mirror rules and logins, the hosts' platforms, what the last release
ran. Out: a ResolvedImage. All places are asked at once; whose word counts is decided afterwards, so
that a slow or lying mirror changes the order of places at most, never the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import RegistryError
from ..types.deployment import ImageMirror
from ..types.references import Reference
from ..types.resolved import Place, ResolvedImage
from .access import Access
from .manifests import Platform, pick
from .references import Candidate, parse, rewrite
from .registry import Refused, RegistryClient, Unreachable

Authority = Literal["manifest", "origin", "release", "mirror"]
_AT_ONCE = 8


@dataclass(frozen=True)
class Known:
    """What the hosts already tell about an image.

    arches: host → the engine's word for its architecture, None: unknown. released: the digest that the
    last release of this reference ran. held: digests that every one of the hosts holds.
    """

    arches: Mapping[str, str | None]
    released: str | None = None
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Answer:
    """What one place said: a digest, or why not. `login`: the scope whose login it was asked with."""

    candidate: Candidate
    digest: str | None = None
    login: str | None = None
    error: RegistryError | None = None

    @property
    def own(self) -> bool:
        """The mirror's own push, and the manifest says that it is meant."""
        return self.digest is not None and self.digest == self.candidate.own_digest

    def place(self, digest: str) -> Place:
        return Place(
            reference=self.candidate.reference.at(digest),
            digest=digest,
            registry=self.candidate.reference.registry,
            insecure=self.candidate.insecure,
            login=self.login,
        )


def resolve_image(
    text: str, *, mirrors: Sequence[ImageMirror], access: Access, known: Known
) -> ResolvedImage:
    """`text` as trusted content for the hosts in `known`.

    Raises RegistryError naming every place and its reason when none has it. Whether it was built for each of
    the hosts is not judged here: the platforms say it.
    """
    reference = parse(text)
    candidates = rewrite(reference, mirrors)
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(candidates))) as pool:
        answers = list(pool.map(lambda each: _ask(each, access), candidates))
        digest, authority = _trusted(reference, answers, known)
        if digest is not None:
            answers = list(pool.map(lambda each: _ask_again(each, digest, access), answers))
    if digest is None:
        raise _nowhere(reference, answers)
    reachable = [each for each in answers if each.own or each.digest == digest]
    if not reachable and digest not in known.held:
        raise _nowhere(reference, answers, digest, authority)
    distant = [each for each in answers if isinstance(each.error, Unreachable)]
    platforms, size = _content(reference, reachable, access, known)
    return ResolvedImage(
        reference=str(reference),
        digest=digest,
        authority=authority,
        places=(
            *(each.place(each.digest or digest) for each in reachable),
            *(each.place(each.candidate.own_digest or digest) for each in distant),
        ),
        platforms=platforms,
        size=size,
        notes=tuple(_notes(answers, reachable, digest, authority)),
    )


def _ask(candidate: Candidate, access: Access) -> _Answer:
    """The digest a place has under the tag (or whether it has the digest asked for)."""
    login = access.login(candidate.reference.name)
    answer = _Answer(candidate, login=login.scope if login else None)
    try:
        with RegistryClient(candidate, access) as client:
            manifest = client.manifest(candidate.own_digest or candidate.reference.wanted)
    except RegistryError as error:
        return replace(answer, error=error)
    return replace(answer, digest=manifest.digest)


def _ask_again(answer: _Answer, digest: str, access: Access) -> _Answer:
    """A place whose tag names something else, or is gone, may still have the trusted content."""
    if answer.own or answer.digest == digest or (answer.error and not isinstance(answer.error, Refused)):
        return answer
    try:
        with RegistryClient(answer.candidate, access) as client:
            return replace(answer, digest=digest, error=None) if client.has(digest) else answer
    except RegistryError:
        return answer


def _trusted(reference: Reference, answers: Sequence[_Answer], known: Known) -> tuple[str | None, Authority]:
    """Whose digest counts: manifest, origin registry, last release, first mirror."""
    if reference.digest is not None:
        return reference.digest, "manifest"
    told = [each for each in answers if each.digest is not None]
    origin = next((each.digest for each in told if each.candidate.origin), None)
    if origin is not None:
        return origin, "origin"
    own = next((each.digest for each in told if each.own), None)
    if own is not None:
        return own, "manifest"
    if known.released is not None:
        return known.released, "release"
    return next((each.digest for each in told), None), "mirror"


def _content(
    reference: Reference, reachable: Sequence[_Answer], access: Access, known: Known
) -> tuple[tuple[str, ...], int]:
    """Platforms offered and bytes to pull, from the first place that tells.

    The size is that of the largest platform among the hosts', 0 when no place tells. Raises RegistryError for
    an image without any.
    """
    failure: RegistryError | None = None
    for answer in reachable:
        try:
            with RegistryClient(answer.candidate, access) as client:
                manifest = client.manifest(answer.digest or reference.wanted)
                offered = client.platforms(manifest)
                if not offered:
                    raise RegistryError("it offers no platform at all", where=f"image {reference}")
                taken = _fit(offered, known.arches) or offered[:1]
                return tuple(map(str, offered)), max(
                    (client.size(manifest, each) for each in taken), default=0
                )
        except RegistryError as error:
            failure = error
    if failure is not None:
        raise failure
    return (), 0


def _fit(offered: Sequence[Platform], arches: Mapping[str, str | None]) -> list[Platform]:
    """The platforms that hosts take; one that the image is not built for takes none."""
    taken = (pick(offered, arch) for arch in arches.values() if arch is not None)
    return [platform for platform in taken if platform is not None]


def _notes(
    answers: Sequence[_Answer], reachable: Sequence[_Answer], digest: str, authority: Authority
) -> list[str]:
    notes = []
    if authority == "mirror":
        notes.append(f"unverified: its digest is the word of {reachable[0].candidate.reference.name}")
    if authority == "release":
        notes.append("the origin did not answer; the digest is the last release's")
    if not reachable:
        notes.append("no place answered; every host holds the image already")
    for each in answers:
        if each in reachable:
            continue
        name = each.candidate.reference.name
        if each.digest is not None:
            notes.append(f"{name} skipped: it has {each.digest}, not the trusted {digest}")
        elif each.error is not None:
            fate = "not reachable from here" if isinstance(each.error, Unreachable) else "skipped"
            notes.append(f"{name} {fate}: {each.error.what}")
    return notes


def _nowhere(
    reference: Reference,
    answers: Sequence[_Answer],
    digest: str | None = None,
    authority: Authority = "mirror",
) -> RegistryError:
    lines = []
    for each in answers:
        what = each.error.what if each.error else f"has {each.digest}, not the {authority}'s {digest}"
        lines.append(f"\n  {each.candidate.reference}: {what}")
    advice = dict.fromkeys(each.error.do for each in answers if each.error and each.error.do)
    if any(each.digest for each in answers):
        advice["pin the digest you trust: write the image as repository:tag@sha256:…"] = None
    return RegistryError(
        "no place has it" + "".join(lines),
        where=f"image {reference}",
        do="; ".join(advice) or "add a mirror for it",
    )
