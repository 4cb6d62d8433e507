"""Hugging Face repositories, asked through huggingface_hub: a revision's commit and its files.

In: a repository and revision, the Hub and perhaps a mirror of it. Out: a `Snapshot` with checked
names. Both are asked at once; the Hub's own word counts wherever it can be had, so that a mirror
changes at most where files come from. A token goes to the Hub itself and never to a mirror.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import __version__
from ..errors import HubError
from ..secrets import Secret
from .selection import Listed, safe_name
from .web import AGENT, CONNECT_S, READ_S, reason

HUGGING_FACE = "https://huggingface.co"
_IF_GATED = "set `token` on its source (it is sent to the Hub itself only, never to a mirror)"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)


@dataclass(frozen=True)
class Hub:
    """Where repositories are asked for: `mirror` first when there is one, then `origin`."""

    mirror: str | None = None
    origin: str = HUGGING_FACE

    @staticmethod
    def of(mirror: str | None) -> Hub:
        """The manifest's mirror; without one the HF_ENDPOINT that other tools on this machine use."""
        endpoint = (mirror or os.environ.get("HF_ENDPOINT") or "").rstrip("/")
        return Hub(mirror=endpoint if endpoint and endpoint != HUGGING_FACE else None)

    @property
    def endpoints(self) -> tuple[str, ...]:
        return (self.mirror, self.origin) if self.mirror else (self.origin,)


@dataclass(frozen=True)
class Snapshot:
    """A repository at one commit. `endpoints`: those to fetch from, in order; `authority`: the one whose
    word commit and checksums are; `notes` for people."""

    repo: str
    commit: str
    files: tuple[Listed, ...]
    endpoints: tuple[str, ...]
    authority: str
    notes: tuple[str, ...] = ()

    def url(self, endpoint: str, path: str) -> str:
        """Where an endpoint has one file, pinned to the commit."""
        return f"{endpoint}/{self.repo}/resolve/{self.commit}/{quote(path)}"

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


class _Distant(HubError):
    """No answer from here, or none just now: hosts may get one."""


def snapshot(hub: Hub, repo: str, revision: str, token: Secret | None) -> Snapshot:
    """The commit and files behind a revision.

    `token` is used only when the Hub itself is asked. Raises HubError naming each endpoint's reason.
    """
    where = f"huggingface {repo}@{revision}"
    if not _REPO.fullmatch(repo):
        raise HubError("not a repository name", where=where, do="write owner/name as the Hub shows it")

    def ask(endpoint: str, wanted: str) -> _Answer:
        blocked_perhaps = endpoint == hub.origin and len(hub.endpoints) > 1
        patience = CONNECT_S if blocked_perhaps else READ_S  # a mirror is there because the Hub is far
        secret = token if endpoint == hub.origin else None
        try:
            return _Answer(endpoint, *_listing(endpoint, repo, wanted, secret, where, patience))
        except HubError as error:
            return _Answer(endpoint, error=error)

    with ThreadPoolExecutor(max_workers=len(hub.endpoints)) as pool:
        answers = list(pool.map(lambda endpoint: ask(endpoint, revision), hub.endpoints))
    told = [answer for answer in answers if answer.error is None]
    if not told:
        raise _nowhere(answers, where)
    trusted = next((answer for answer in told if answer.endpoint == hub.origin), told[0])
    notes = []
    if trusted.endpoint != hub.origin:
        notes.append(f"unverified: its commit and checksums are the word of {trusted.endpoint}")
    endpoints = []
    for answer in answers:
        if answer.error is None and answer.commit != trusted.commit:
            answer = ask(answer.endpoint, trusted.commit)  # a mirror may be behind, and still have it
        why = _why_not(answer, trusted)
        if why:
            notes.append(f"{answer.endpoint} did not serve it ({why})")
        if not why or isinstance(answer.error, _Distant):
            endpoints.append(answer.endpoint)
    return Snapshot(repo, trusted.commit, trusted.files, tuple(endpoints), trusted.endpoint, tuple(notes))


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


def _listing(
    endpoint: str, repo: str, revision: str, token: Secret | None, where: str, patience: float
) -> tuple[str, tuple[Listed, ...]]:
    # Imported here: it takes longer to load than everything else of a plan.
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(
        endpoint=endpoint,
        token=token.reveal() if token else False,
        library_name=AGENT,
        library_version=__version__,
    )
    try:
        info = api.model_info(repo, revision=revision, files_metadata=True, timeout=patience)
    except HfHubHTTPError as error:
        raise _refused(error.response.status_code, endpoint, with_token=token is not None) from None
    except Exception as error:
        # The library lets through whatever its HTTP client and its parsing of the answer raise, and
        # which client that is changed with its versions: any of it means "no usable answer".
        if isinstance(error, (ValueError, TypeError, KeyError, AttributeError)):
            raise HubError(
                "did not answer as a Hub does", where=endpoint, do="check the mirror's address"
            ) from None
        why = reason(error)
        raise _Distant(
            why.text, where=endpoint, do=why.do or "check the network, or set `mirrors: huggingface`"
        ) from None
    if info.gated and token is None:
        raise HubError("gated: its files come only with a token", where=endpoint, do=_IF_GATED)
    return _commit(info, endpoint), tuple(_listed(sibling, where) for sibling in info.siblings or ())


def _commit(info: Any, endpoint: str) -> str:
    commit = info.sha
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise HubError(
            "answered without a commit: not a Hub", where=endpoint, do="check the mirror's address"
        )
    return commit


def _listed(sibling: Any, where: str) -> Listed:
    """One file of the listing, its name and checksum checked: they come from outside."""
    path, size = sibling.rfilename, sibling.size
    if not isinstance(path, str) or not safe_name(path):
        raise HubError(
            f"the repository lists a file named {str(path)[:80]!r}, which could leave its folder",
            where=where,
            do="don't use this repository or mirror",
        )
    lfs = sibling.lfs
    sha256 = lfs.sha256 if lfs is not None else None
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise HubError(
            f"the checksum listed for {path} is not a sha256", where=where, do="don't use this mirror"
        )
    size = lfs.size if lfs is not None else size
    if type(size) is not int or size < 0:
        raise HubError(f"no size is listed for {path}", where=where, do="use another mirror")
    return Listed(path, size, sha256, sibling.blob_id if isinstance(sibling.blob_id, str) else None)


def _refused(status: int, endpoint: str, *, with_token: bool) -> HubError:
    if status in (401, 403):
        if with_token:
            return HubError(
                "the token is not accepted for it, or it does not exist",
                where=endpoint,
                do="accept the model's conditions on its page with the token's account; check the name",
            )
        return HubError(
            "not found, or only with a token",
            where=endpoint,
            do=f"check the name; if it is gated, {_IF_GATED}",
        )
    if status == 404:
        return HubError(
            "no such repository or revision", where=endpoint, do="check `huggingface` and `revision`"
        )
    if status == 429:
        return _Distant("too many requests", where=endpoint, do="wait, or set `token` or a mirror")
    return _Distant(
        f"the Hub failed with status {status}", where=endpoint, do="try again later, or use a mirror"
    )
