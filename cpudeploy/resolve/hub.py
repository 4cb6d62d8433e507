"""Hugging Face repositories, asked through huggingface_hub: a revision's commit and its files.

In: a question to the Hub or to a mirror of it. Out: a listing with checked names.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from .. import __version__
from ..errors import HubError
from .selection import Listed
from .snapshots import Asked, Distant, Listing, Site, TokenWanted, checked
from .web import AGENT, reason

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
        # Imported here: it takes longer to load than everything else of a plan.
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError

        endpoint, token = asked.endpoint, asked.token
        api = HfApi(
            endpoint=endpoint,
            token=token.reveal() if token else False,
            library_name=AGENT,
            library_version=__version__,
        )
        try:
            info = api.model_info(
                asked.repo, revision=asked.revision, files_metadata=True, timeout=asked.patience
            )
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
            raise Distant(
                why.text, where=endpoint, do=why.do or "check the network, or set `mirrors: huggingface`"
            ) from None
        if info.gated and token is None:
            raise TokenWanted("gated: its files come only with a token", where=endpoint, do=_IF_GATED)
        files = tuple(_listed(sibling, asked.where) for sibling in info.siblings or ())
        return Listing(_commit(info, endpoint), files)


def _commit(info: Any, endpoint: str) -> str:
    commit = info.sha
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise HubError(
            "answered without a commit: not a Hub", where=endpoint, do="check the mirror's address"
        )
    return commit


def _listed(sibling: Any, where: str) -> Listed:
    lfs = sibling.lfs
    return checked(
        sibling.rfilename,
        lfs.size if lfs is not None else sibling.size,
        lfs.sha256 if lfs is not None else None,
        sibling.blob_id,
        where,
    )


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
