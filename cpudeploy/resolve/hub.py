"""Hugging Face repositories, asked through huggingface_hub: a revision's commit and its files.

In: a repository and revision, the Hub and perhaps a mirror of it. Out: a `Snapshot` with checked
names. A token goes to the Hub itself and never to a mirror: where a mirror can't serve a gated
repository without one, the Hub is asked instead.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import __version__
from ..errors import HubError
from ..secrets import Secret
from .selection import Listed, safe_name
from .web import AGENT, READ_S, reason

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
    """A repository at one commit. `endpoints`: those to fetch from, in order; `notes` for people."""

    repo: str
    commit: str
    files: tuple[Listed, ...]
    endpoints: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def urls(self, path: str) -> tuple[str, ...]:
        """Where one file is had from, pinned to the commit."""
        return tuple(f"{base}/{self.repo}/resolve/{self.commit}/{quote(path)}" for base in self.endpoints)


class _Gated(HubError):
    """The repository wants a token, or a better one; or it isn't there: a Hub does not tell which."""


def snapshot(hub: Hub, repo: str, revision: str, token: Secret | None) -> Snapshot:
    """The commit and files behind a revision.

    `token` is used only when the Hub itself is asked. Raises HubError naming each endpoint's reason.
    """
    where = f"huggingface {repo}@{revision}"
    if not _REPO.fullmatch(repo):
        raise HubError("not a repository name", where=where, do="write owner/name as the Hub shows it")
    failures: list[HubError] = []
    for endpoint in hub.endpoints:
        try:
            secret = token if endpoint == hub.origin else None
            commit, files = _listing(endpoint, repo, revision, secret, where)
        except HubError as error:
            failures.append(error)
            continue
        notes = tuple(f"{failed.where} did not serve it ({failed.what})" for failed in failures)
        # A mirror that was refused the files without a token would refuse the hosts as well.
        gated = any(isinstance(failed, _Gated) for failed in failures)
        return Snapshot(repo, commit, files, (hub.origin,) if gated else hub.endpoints, notes)
    told = "".join(f"\n  {failed.where}: {failed.what}" for failed in failures)
    advice = "; ".join(dict.fromkeys(failed.do for failed in failures if failed.do))
    raise HubError(f"no Hub has it for us{told}", where=where, do=advice)


def _listing(
    endpoint: str, repo: str, revision: str, token: Secret | None, where: str
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
        info = api.model_info(repo, revision=revision, files_metadata=True, timeout=READ_S)
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
        raise HubError(
            why.text, where=endpoint, do=why.do or "check the network, or set `mirrors: huggingface`"
        ) from None
    if info.gated and token is None:
        raise _Gated("gated: its files come only with a token", where=endpoint, do=_IF_GATED)
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
    if not isinstance(size, int) or size < 0:
        raise HubError(f"no size is listed for {path}", where=where, do="use another mirror")
    return Listed(path, size, sha256, sibling.blob_id if isinstance(sibling.blob_id, str) else None)


def _refused(status: int, endpoint: str, *, with_token: bool) -> HubError:
    if status in (401, 403):
        if with_token:
            return _Gated(
                "the token is not accepted for it, or it does not exist",
                where=endpoint,
                do="accept the model's conditions on its page with the token's account; check the name",
            )
        return _Gated(
            "not found, or only with a token",
            where=endpoint,
            do=f"check the name; if it is gated, {_IF_GATED}",
        )
    if status == 404:
        return HubError(
            "no such repository or revision", where=endpoint, do="check `huggingface` and `revision`"
        )
    if status == 429:
        return HubError("too many requests", where=endpoint, do="wait, or set `token` or a mirror")
    return HubError(
        f"the Hub failed with status {status}", where=endpoint, do="try again later, or use a mirror"
    )
