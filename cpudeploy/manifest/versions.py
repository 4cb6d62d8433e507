"""Engine versions that compare. In: an image tag or a version as written. Out: a Version. Pure.

Builds (`b9000`) are one number, releases (`v0.21.0`) several. What can't be read is newer than all others:
playbooks are written for the newest, older versions are their exceptions.
"""

from __future__ import annotations

import functools
import math
import re

from ..types.deployment import Backend
from ..types.playbook import Playbook
from .images import tag_of

_VERSION = re.compile(r"[A-Za-z]*[-_]?([0-9]{1,9}(?:\.[0-9]{1,9})*)(.*)", re.DOTALL)
_BEFORE_RELEASE = re.compile(r"[-._]?(?:rc|a|b|alpha|beta|dev|pre)[-._]?[0-9]*(?![A-Za-z])", re.IGNORECASE)
_WIDTH = 6


@functools.total_ordering
class Version:
    """Compares with versions, build numbers and text: `version >= 9000`, `version < "0.22"`.

    Not with floats: 0.20 would be 0.2.
    """

    __slots__ = ("_key", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        match = _VERSION.fullmatch(text)
        self._key: tuple[float, ...] = (math.inf,)
        if match is not None:
            numbers = [int(part) for part in match[1].split(".")][:_WIDTH]
            before_release = -1 if _BEFORE_RELEASE.match(match[2]) else 0
            self._key = (*numbers, *([0] * (_WIDTH - len(numbers))), before_release)

    @property
    def known(self) -> bool:
        """False when the text tells no version and the newest is assumed."""
        return self._key != (math.inf,)

    def __eq__(self, other: object) -> bool:
        key = _key_of(other)
        return NotImplemented if key is None else self._key == key

    def __lt__(self, other: object) -> bool:
        key = _key_of(other)
        return NotImplemented if key is None else self._key < key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Version({self.text!r})"


def _key_of(other: object) -> tuple[float, ...] | None:
    if isinstance(other, Version):
        return other._key
    if isinstance(other, str) or (isinstance(other, int) and not isinstance(other, bool)):
        return Version(str(other))._key
    return None


def backend_version(backend: Backend, playbook: Playbook) -> Version:
    """The engine's version: as the manifest says, else what the playbook's pattern finds in the tag."""
    if backend.version is not None:
        return Version(backend.version)
    if playbook.version_pattern is not None:
        match = re.search(playbook.version_pattern, tag_of(backend.image))
        if match is not None:
            return Version(match[1])
    return Version("")
