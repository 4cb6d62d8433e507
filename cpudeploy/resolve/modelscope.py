"""ModelScope repositories: what a revision holds, asked as ModelScope's own SDK asks.

In: a question to ModelScope or to a mirror of it. Out: a listing with checked names. One request lists all
files with sizes and sha256. It tells no commit that could be asked for, so a revision is named by the
checksum of what it lists, and what pins a file is its own: one that changed meanwhile is refused where it
arrives.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote_plus

from ..errors import HubError
from .answers import answer
from .selection import Listed
from .snapshots import Asked, Distant, Listing, Site, TokenWanted, checked

MODELSCOPE = "https://modelscope.cn"
OWN = (MODELSCOPE, "https://www.modelscope.cn", "https://modelscope.ai", "https://www.modelscope.ai")
"""ModelScope's own addresses: where a token may go."""
COOKIE = "m_session_id"
"""In which older parts of its API look for the token; newer ones read the Authorization header."""
_MOST = 3000
"""Entries after which a listing ends without a word."""
_IF_PRIVATE = "check the name; if it is private, set `token` beside it (it goes to ModelScope itself only)"


@dataclass(frozen=True)
class Scope(Site):
    """ModelScope, with its mirror first where there is one."""

    mirror: str | None = None
    origin: str = MODELSCOPE

    kind: ClassVar[str] = "modelscope"
    pins: ClassVar[bool] = False
    cookie: ClassVar[str] = COOKIE

    @staticmethod
    def of(mirror: str | None) -> Scope:
        """The manifest's endpoint; without one that of the variables the SDK reads."""
        environment = os.environ.get("MODELSCOPE_ENDPOINT") or os.environ.get("MODELSCOPE_DOMAIN") or ""
        endpoint = (mirror or environment).strip().rstrip("/")
        if endpoint and "://" not in endpoint:
            endpoint = f"https://{endpoint}"
        if not endpoint or endpoint in OWN:
            return Scope(origin=endpoint or MODELSCOPE)
        return Scope(mirror=endpoint)

    def url(self, endpoint: str, repo: str, revision: str, path: str) -> str:
        where = f"Revision={quote_plus(revision)}&FilePath={quote_plus(path)}"
        return f"{endpoint}/api/v1/models/{repo}/repo?{where}"

    def listing(self, asked: Asked) -> Listing:
        address = f"{asked.endpoint}/api/v1/models/{asked.repo}/repo/files"
        address += f"?Revision={quote_plus(asked.revision)}&Recursive=True"
        files = tuple(_listed(entry, asked.where) for entry in _entries(address, asked))
        lines = "".join(f"{file.sha256} {file.size} {file.path}\n" for file in sorted(files, key=_path))
        return Listing(hashlib.sha256(lines.encode()).hexdigest()[:40], files)


def _entries(address: str, asked: Asked) -> list[Mapping[str, Any]]:
    """The files among what one answer lists."""
    data = _answer(address, asked)
    entries = data.get("Files") if isinstance(data, dict) else data
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise _no_scope(asked.endpoint)
    if len(entries) >= _MOST:
        raise HubError(
            f"it lists {_MOST} files and folders, and no more than that can be seen",
            where=asked.where,
            do="use another repository of the model",
        )
    return [each for each in entries if each.get("Type") != "tree"]


def _answer(address: str, asked: Asked) -> Any:
    """The data of an answer. Raises HubError and Distant."""
    status, told = answer(address, asked, cookie=COOKIE, do="check the network, or set `mirrors: modelscope`")
    if status != 200:
        raise _refused(status, asked.endpoint, with_token=asked.token is not None)
    if not isinstance(told, dict) or told.get("Code") != 200:
        raise _no_scope(asked.endpoint)
    return told.get("Data")


def _listed(entry: Mapping[str, Any], where: str) -> Listed:
    # Files of no use to anybody may come without a checksum; where one is wanted, it is hashed then.
    return checked(entry.get("Path"), entry.get("Size"), entry.get("Sha256") or None, None, where)


def _path(file: Listed) -> str:
    return file.path


def _no_scope(endpoint: str) -> HubError:
    return HubError("did not answer as ModelScope does", where=endpoint, do="check the endpoint's address")


def _refused(status: int, endpoint: str, *, with_token: bool) -> HubError:
    if status in (401, 403) and with_token:
        return HubError(
            "the token is not accepted for it",
            where=endpoint,
            do="check that the token's account may read it",
        )
    if status in (401, 403):
        return TokenWanted("not found, or only with a token", where=endpoint, do=_IF_PRIVATE)
    if status in (400, 404):
        return HubError(
            "no such repository or revision",
            where=endpoint,
            do=f"check `modelscope` and `revision`; {_IF_PRIVATE.partition('; ')[2]}",
        )
    if status == 429:
        return Distant("too many requests", where=endpoint, do="wait, or set `token`")
    return Distant(f"it failed with status {status}", where=endpoint, do="try again later")
