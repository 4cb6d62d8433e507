"""Does a host look as a plan says? A fingerprint and facts as JSON in, what differs out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types.base import Struct
from ..types.plan import Fingerprint
from ..types.pointer import lookup
from .mismatch_words import differs_from_before, differs_from_plan, is_another, thing_of


class Mismatch(Struct, frozen=True, kw_only=True):
    """One statement that does not hold. `found` None: nothing is there. `least`: that much at least."""

    pointer: str
    wanted: Any
    found: Any
    least: bool = False

    @property
    def still(self) -> str:
        """What is not as the plan meant to leave it, in words."""
        return differs_from_plan(self.pointer, self.wanted, self.found, least=self.least)


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
            wrong.append(Mismatch(pointer=pointer, wanted=least, found=found, least=True))
    return tuple(wrong)


def changed_since(wrong: Sequence[Mismatch]) -> str:
    """What changed since a plan was made, in words. Of a thing that is gone, or another one, that alone."""
    others = {thing for each in wrong if (thing := is_another(each.pointer, least=each.least))}
    told = [
        differs_from_before(each.pointer, each.wanted, each.found, least=each.least)
        for each in wrong
        if is_another(each.pointer, least=each.least) or thing_of(each.pointer) not in others
    ]
    return "; ".join(dict.fromkeys(told))
