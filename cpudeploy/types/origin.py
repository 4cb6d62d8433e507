"""Where a manifest comes from, as releases record it: `REMOTE PATH` in git, or `user@machine:path`."""

from __future__ import annotations

import re
from typing import NamedTuple

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^@/\s]*@)?(?P<host>[^:/\s]+)(?::(?P<port>[0-9]+))?/(?P<path>\S*)",
    re.IGNORECASE,
)
_SCP = re.compile(r"(?:(?P<user>[^@:/\s]+)@)?(?P<host>[^@:/\s]+):(?P<path>\S*)")
_FORGES = ("git", None)
"""Users whose paths begin at a forge's root, as those of its URLs do, and not in a home of their own."""


class _Place(NamedTuple):
    """A repository and a file in it. `port`: of a scheme; empty where none is said."""

    host: str
    repository: str
    path: str
    scheme: str = ""
    port: str = ""


def same_origin(one: str, other: str) -> bool:
    """Whether both name the same place: one clones over SSH, another over HTTPS, each with a login and ports
    of its own. In doubt they are two."""
    first, second = _place(one), _place(other)
    if first.scheme == second.scheme:
        return first == second
    return first[:3] == second[:3]


def _place(origin: str) -> _Place:
    where, _, path = origin.partition(" ")
    if match := _URL.fullmatch(where):
        scheme, port = match["scheme"].lower(), match["port"] or ""
        return _Place(match["host"].lower(), _bare(match["path"]), path, scheme, port)
    match = _SCP.fullmatch(where)
    if match is None or match["user"] not in _FORGES or match["path"].startswith("/"):
        return _Place("", origin, "")
    return _Place(match["host"].lower(), _bare(match["path"]), path, "scp")


def _bare(repository: str) -> str:
    return repository.strip("/").removesuffix(".git")
