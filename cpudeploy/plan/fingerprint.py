"""Does a host look as a plan says? A fingerprint and facts as JSON in, what differs out. Pure."""

from __future__ import annotations

from typing import Any

from ..types.base import Struct
from ..types.plan import Fingerprint
from ..types.pointer import lookup


class Mismatch(Struct, frozen=True, kw_only=True):
    """One statement that does not hold. `found` None: nothing is there."""

    pointer: str
    wanted: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.pointer}: the plan expects {_shown(self.wanted)}, found {_shown(self.found)}"


def matches(fingerprint: Fingerprint, document: Any) -> tuple[Mismatch, ...]:
    """What of `fingerprint` does not hold for `document`, facts in their JSON form; empty: all holds.

    A wanted null means absent (or null); an unknown fact equals nothing and is never enough.
    """
    wrong = []
    for pointer, wanted in fingerprint.equals.items():
        found = lookup(document, pointer)
        if found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
            wrong.append(Mismatch(pointer=pointer, wanted=wanted, found=found))
    for pointer, least in fingerprint.at_least.items():
        found = lookup(document, pointer)
        if isinstance(found, bool) or not isinstance(found, int | float) or found < least:
            wrong.append(Mismatch(pointer=pointer, wanted=f"at least {least}", found=found))
    return tuple(wrong)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict) and value.get("kind") == "unknown":
        return f"unknown ({value['unknown']})"
    return str(value)
