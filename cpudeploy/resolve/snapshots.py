"""A repository at one revision: what its site and perhaps a mirror of it say, and whose word counts.

In: a repository and revision, the site and its mirror. Out: a `Snapshot` with checked names. Both are asked
at once; the site's own word counts wherever it can be had, so that a mirror changes at most where files come
from. A token goes to the site itself and never to a mirror.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from ..errors import HubError
from ..secrets import Secret
from .selection import Listed, safe_name
from .web import CONNECT_S, READ_S

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)


@dataclass(frozen=True)
class Asked:
    """One question to one endpoint. `patience`: seconds to wait for its answer."""

    endpoint: str
    repo: str
    revision: str
    token: Secret | None
    patience: float
    where: str


@dataclass(frozen=True)
class Listing:
    """What an endpoint lists. `commit`: what names exactly this content."""

    commit: str
    files: tuple[Listed, ...]


class Distant(HubError):
    """No answer from here, or none just now: hosts may get one."""


class TokenWanted(HubError):
    """Asked without a token, and that was not enough, or there is no such repository."""


@dataclass(frozen=True)
class Site(ABC):
    """Where repositories are asked for: `mirror` first when there is one, then `origin`."""

    mirror: str | None
    origin: str

    kind: ClassVar[str]
    """As manifests call it."""
    pins: ClassVar[bool]
    """Whether what a listing calls its commit can be asked for as a revision."""
    cookie: ClassVar[str] = ""
    """The cookie in which a token is sent besides the Authorization header, or none."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        return (self.mirror, self.origin) if self.mirror else (self.origin,)

    @abstractmethod
    def listing(self, asked: Asked) -> Listing:
        """What an endpoint has of a repository. Raises HubError, and Distant where it does not answer."""

    @abstractmethod
    def url(self, endpoint: str, repo: str, revision: str, path: str) -> str:
        """Where an endpoint has one file."""


@dataclass(frozen=True)
class Snapshot:
    """A repository at one commit. `revision`: under which its files are asked for. `endpoints`: those to
    fetch from, in order; `authority`: the one whose word commit and checksums are; `notes` for people."""

    site: Site
    repo: str
    revision: str
    commit: str
    files: tuple[Listed, ...]
    endpoints: tuple[str, ...]
    authority: str
    notes: tuple[str, ...] = ()

    def url(self, endpoint: str, path: str) -> str:
        """Where an endpoint has one file."""
        return self.site.url(endpoint, self.repo, self.revision, path)

    def urls(self, path: str) -> tuple[str, ...]:
        """Where one file is had from, in order."""
        return tuple(self.url(endpoint, path) for endpoint in self.endpoints)


@dataclass(frozen=True)
class _Answer:
    """What one endpoint said: a commit and its files, or why not."""

    endpoint: str
    commit: str = ""
    files: tuple[Listed, ...] = ()
    error: HubError | None = None


def snapshot(site: Site, repo: str, revision: str, token: Secret | None) -> Snapshot:
    """The commit and files behind a revision.

    `token` is used only when the site itself is asked. Raises HubError naming each endpoint's reason.
    """
    where = f"{site.kind} {repo}@{revision}"
    if not _REPO.fullmatch(repo):
        raise HubError("not a repository name", where=where, do="write owner/name as the Hub shows it")

    def ask(endpoint: str, wanted: str) -> _Answer:
        blocked_perhaps = endpoint == site.origin and len(site.endpoints) > 1
        patience = CONNECT_S if blocked_perhaps else READ_S  # a mirror is there because the Hub is far
        secret = token if endpoint == site.origin else None
        try:
            listing = site.listing(Asked(endpoint, repo, wanted, secret, patience, where))
        except HubError as error:
            if isinstance(error, TokenWanted) and token is not None:
                error.do = f"see that this machine reaches {site.origin}: the token goes to no other"
            return _Answer(endpoint, error=error)
        return _Answer(endpoint, listing.commit, listing.files)

    with ThreadPoolExecutor(max_workers=len(site.endpoints)) as pool:
        answers = list(pool.map(lambda endpoint: ask(endpoint, revision), site.endpoints))
    told = [answer for answer in answers if answer.error is None]
    if not told:
        raise _nowhere(answers, where)
    trusted = next((answer for answer in told if answer.endpoint == site.origin), told[0])
    notes = []
    if trusted.endpoint != site.origin:
        what = "its commit and checksums are" if site.pins else "its checksums are"
        notes.append(f"unverified: {what} the word of {trusted.endpoint}")
    endpoints = []
    for answer in answers:
        if site.pins and answer.error is None and answer.commit != trusted.commit:
            answer = ask(answer.endpoint, trusted.commit)  # a mirror may be behind, and still have it
        why = _why_not(answer, trusted)
        if why:
            notes.append(f"{answer.endpoint} did not serve it ({why})")
        if not why or isinstance(answer.error, Distant):
            endpoints.append(answer.endpoint)
    return Snapshot(
        site=site,
        repo=repo,
        revision=trusted.commit if site.pins else revision,
        commit=trusted.commit,
        files=trusted.files,
        endpoints=tuple(endpoints),
        authority=trusted.endpoint,
        notes=tuple(notes),
    )


def checked(path: object, size: object, sha256: object, blob: object, where: str) -> Listed:
    """One file of a listing, its name, size and checksum checked: they come from outside. Raises HubError."""
    if not isinstance(path, str) or not safe_name(path):
        raise HubError(
            f"the repository lists a file named {str(path)[:80]!r}, which could leave its folder",
            where=where,
            do="don't use this repository or mirror",
        )
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise HubError(
            f"the checksum listed for {path} is not a sha256", where=where, do="don't use this mirror"
        )
    if type(size) is not int or size < 0:
        raise HubError(f"no size is listed for {path}", where=where, do="use another mirror")
    return Listed(path, size, sha256, blob if isinstance(blob, str) else None)


def _why_not(answer: _Answer, trusted: _Answer) -> str:
    """Why files are not to be had from an endpoint; empty where they are."""
    if answer.error is not None:
        return answer.error.what
    theirs = {file.path: file for file in answer.files}
    for ours in trusted.files:
        their = theirs.get(ours.path)
        if their is None:
            return f"it lacks {ours.path}"
        if their.size != ours.size or (their.sha256 and ours.sha256 and their.sha256 != ours.sha256):
            return f"its {ours.path} is not the one of {trusted.endpoint}"
    return ""


def _nowhere(answers: Iterable[_Answer], where: str) -> HubError:
    failures = [(answer.endpoint, answer.error) for answer in answers if answer.error is not None]
    told = "".join(f"\n  {endpoint}: {error.what}" for endpoint, error in failures)
    advice = "; ".join(dict.fromkeys(error.do for _, error in failures if error.do))
    return HubError(f"no Hub has it for us{told}", where=where, do=advice)
