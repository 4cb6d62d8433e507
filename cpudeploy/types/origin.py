"""Where a manifest comes from, as releases record it: `REMOTE PATH` in git, or `user@machine:path`."""

from __future__ import annotations

import re

_PLACE = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?(?P<host>[^:/\s]+)(?::[0-9]+(?=/))?[:/]+(?P<path>\S*)",
    re.IGNORECASE,
)


def same_origin(one: str, other: str) -> bool:
    """Whether both name the same place: one clones over SSH, another over HTTPS, each as its own user."""
    return _place(one) == _place(other)


def _place(origin: str) -> tuple[str, ...]:
    """Machine, path there, and what follows it; the text itself where it has no such form."""
    where, _, rest = origin.partition(" ")
    match = _PLACE.fullmatch(where)
    if match is None:
        return (origin,)
    return match["host"].lower(), match["path"].strip("/").removesuffix(".git"), rest
