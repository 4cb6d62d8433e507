"""Hugging Face repositories: a revision's commit and its files, by the one request that tells them.

In: a question to the Hub or to a mirror of it. Out: a listing with checked names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from ..errors import HubError
from .answers import answer
from .selection import Listed
from .snapshots import Asked, Distant, Listing, Site, TokenWanted, checked

HUGGING_FACE = "https://huggingface.co"
_IF_GATED = "set `token` on its source (it is sent to the Hub itself only, never to a mirror)"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Hub(Site):
    """The Hub, with its mirror first where there is one."""

    mirror: str | None = None
    origin: str = HUGGING_FACE

    kind: ClassVar[str] = "huggingface"
    pins: ClassVar[bool] = True

    @staticmethod
    def of(mirror: str | None) -> Hub:
        """The manifest's mirror; without one the HF_ENDPOINT that other tools on this machine use."""
        endpoint = (mirror or os.environ.get("HF_ENDPOINT") or "").rstrip("/")
        return Hub(mirror=endpoint if endpoint and endpoint != HUGGING_FACE else None)

    def url(self, endpoint: str, repo: str, revision: str, path: str) -> str:
        return f"{endpoint}/{repo}/resolve/{quote(revision, safe='')}/{quote(path)}"

    def listing(self, asked: Asked) -> Listing:
        revision = quote(asked.revision, safe="")
        address = f"{asked.endpoint}/api/models/{quote(asked.repo)}/revision/{revision}?blobs=true"
        status, told = answer(address, asked, do="check the network, or set `mirrors: huggingface`")
        if status != 200:
            raise _refused(status, asked.endpoint, with_token=asked.token is not None)
        if not isinstance(told, dict) or not isinstance(told.get("siblings") or [], list):
            raise HubError(
                "did not answer as a Hub does", where=asked.endpoint, do="check the mirror's address"
            )
        if told.get("gated") and asked.token is None:
            raise TokenWanted("gated: its files come only with a token", where=asked.endpoint, do=_IF_GATED)
        return Listing(_commit(told, asked.endpoint), tuple(_files(told, asked)))


def _commit(told: Mapping[str, Any], endpoint: str) -> str:
    commit = told.get("sha")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise HubError(
            "answered without a commit: not a Hub", where=endpoint, do="check the mirror's address"
        )
    return commit


def _files(told: Mapping[str, Any], asked: Asked) -> Iterator[Listed]:
    """Large files have size and sha256 under `lfs`; small ones are git's own, and only it names them."""
    for sibling in told.get("siblings") or ():
        its = sibling if isinstance(sibling, dict) else {}
        lfs = its.get("lfs")
        large = lfs if isinstance(lfs, dict) else its
        blob = its.get("blobId")
        yield checked(its.get("rfilename"), large.get("size"), large.get("sha256"), blob, asked.where)


def _refused(status: int, endpoint: str, *, with_token: bool) -> HubError:
    if status in (401, 403):
        if with_token:
            return HubError(
                "the token is not accepted for it, or it does not exist",
                where=endpoint,
                do="accept the model's conditions on its page with the token's account; check the name",
            )
        return TokenWanted(
            "not found, or only with a token",
            where=endpoint,
            do=f"check the name; if it is gated, {_IF_GATED}",
        )
    if status == 404:
        return HubError(
            "no such repository or revision", where=endpoint, do="check `huggingface` and `revision`"
        )
    if status == 429:
        return Distant("too many requests", where=endpoint, do="wait, or set `token` or a mirror")
    return Distant(
        f"the Hub failed with status {status}", where=endpoint, do="try again later, or use a mirror"
    )
