"""What keeps the host whole, from its state folder: lease, change in flight, guards, holds, used plans. Pure.

What is damaged stands as unknown, or is named in a note; ages are by the host's own uptime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..types.base import Unknown, from_json
from ..types.safety import Guard, Hold, InFlight, Lease
from .records import Record, Records

_SOMEBODY = "somebody"


def read_lease(records: Records) -> Lease | None:
    """Who holds the host. A lease without its times was written into a power cut: nobody's any more."""
    record = records.get("lease")
    if record is None:
        return None
    times, about, *_ = [*record.text.split("\n"), "", ""]
    if not times and not about:
        return None  # given back while we looked
    told = _object(about)
    now, this_run = _this_run(records)
    taken, renewed, ttl, run = _words(times, 4)
    since, silent = max(0, now - _number(taken)), max(0, now - _number(renewed))
    dead = not times or run != this_run
    return Lease(
        holder=_text(told, "holder") or _SOMEBODY,
        command=_text(told, "command"),
        deployment=_text(told, "deployment"),
        plan=_text(told, "plan"),
        since_s=0 if dead else since,
        silent_s=0 if dead else silent,
        expired=dead or silent > _number(ttl),
    )


def read_in_flight(records: Records) -> InFlight | Unknown | None:
    """The change that is under way, or was when its controller ended."""
    record = records.get("in-flight")
    if record is None:
        return None
    if record.code != 0:
        return Unknown(unknown=record.text.strip())
    try:
        return from_json(record.text, InFlight)
    except (msgspec.DecodeError, RecursionError) as error:
        return Unknown(unknown=f"inflight.json can't be understood: {error}")


def read_guards(records: Records) -> dict[str, Guard]:
    """Ways back, by name. One that fires at this moment is armed with no time left."""
    return {name: _guard(record, *_this_run(records)) for name, record in records.below("guard:").items()}


def _guard(record: Record, now: int, this_run: str) -> Guard:
    word, terms, renewed, rc, about, log = [*record.text.split("\n", 5), *[""] * 6][:6]
    _, after, _, run = _words(terms, 4)
    told = _object(about)
    named = Guard(
        state="lost",
        deployment=_text(told, "deployment"),
        plan=_text(told, "plan"),
        change=_text(told, "change"),
    )
    if word == "fired" and rc:
        code = int(rc) if rc.isdecimal() and len(rc) < 4 else None
        return msgspec.structs.replace(named, state="fired", rc=code, log=log.strip())
    if not word or run != this_run:
        return named
    left = 0 if word == "fired" else max(0, _number(renewed) + _number(after) - now)
    return msgspec.structs.replace(named, state="armed", left_s=left)


def read_held(records: Records, notes: list[str]) -> dict[str, dict[str, Hold]]:
    """Deployment → container → hold. One that can't be read holds nothing, and a note says so."""
    found: dict[str, dict[str, Hold]] = {}
    for path, record in records.below("hold:").items():
        deployment, _, name = path.split("/", 2)
        try:
            hold = from_json(record.text if record.code == 0 else "", Hold)
        except (msgspec.DecodeError, RecursionError):
            notes.append(f"{path} can't be read: nothing is held back because of it")
            continue
        found.setdefault(deployment, {})[name.removesuffix(".json")] = hold
    return found


def read_used_plans(records: Records) -> dict[str, tuple[str, ...]]:
    """Deployment → ids of the saved plans that were finished here."""
    found: dict[str, tuple[str, ...]] = {}
    for line in records.lines("used-plans"):
        deployment, _, plan = [*line.split("/", 2), "", ""][:3]
        if not plan:
            continue  # half of a name with a line break in it: not ours
        found[deployment] = (*found.get(deployment, ()), plan)
    return found


def _this_run(records: Records) -> tuple[int, str]:
    """Seconds the host is up, and which run of it this is."""
    now, run = _words(records.text("this-run"), 2)
    return _number(now), run


def _words(line: str, count: int) -> Sequence[str]:
    return [*line.split(), *[""] * count][:count]


def _number(word: str) -> int:
    digits = word.removeprefix("-")
    return int(word) if digits.isdecimal() and digits.isascii() and len(digits) < 20 else 0


def _object(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(told: dict[str, Any], key: str) -> str:
    found = told.get(key)
    return found if isinstance(found, str) else ""
