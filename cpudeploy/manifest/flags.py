"""Command-line flags as engines read them. In: an argument, a playbook. Out: which of its flags it is. Pure.

`--flag=value` repeats `--flag`, `--some_flag` repeats `--some-flag`, `--flag.key` sets part of `--flag`, and
`-n2` is `-n 2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..types.playbook import Playbook


def spells(name: str, flag: str) -> bool:
    """Whether a name, without any value, is this flag's."""
    return name == flag or (flag.startswith("--") and _dashed(name) == _dashed(flag))


def repeats(argument: str, flag: str) -> bool:
    """Whether an argument gives this flag, or a part of it."""
    given = _name(argument)
    glued = len(flag) == 2 and given.startswith(flag) and given[2:].isdecimal()
    return glued or spells(given, flag)


def flag_conflict(argument: str, playbook: Playbook) -> tuple[str, str | None] | None:
    """The flag an argument repeats and the manifest's field for it; None when it repeats none."""
    rendered = playbook.container.arguments if playbook.container is not None else ()
    found = ((flag, each.field) for each in rendered for flag in each.flags if repeats(argument, flag))
    return next(found, None)


def refused_flag(argument: str, playbook: Playbook) -> tuple[str, str] | None:
    """The flag an argument gives that the playbook refuses, and why; None when it gives none."""
    found = ((flag, each.why) for each in playbook.refuses for flag in each.flags if repeats(argument, flag))
    return next(found, None)


def cut_short(argument: str, playbook: Playbook) -> str | None:
    """The flag of the playbook that an argument is the beginning of, which some engines take for it; None
    when it is none's, or a flag of its own that the playbook knows."""
    given = _dashed(_name(argument))
    known = [_dashed(flag) for flag in _known(playbook)]
    if not given.startswith("--") or given in known:
        return None
    return next((flag for flag in known if flag.startswith(given)), None)


def holds_value(argument: str) -> bool:
    """Whether a flag and its value were written as one argument: `--flag value`."""
    return re.match(r"--[A-Za-z0-9_-]+\s", argument) is not None


def _known(playbook: Playbook) -> Iterator[str]:
    for argument in playbook.container.arguments if playbook.container is not None else ():
        yield from argument.flags
    for entry in playbook.by_hand:
        yield from entry.flags
    for refusal in playbook.refuses:
        yield from refusal.flags


def _name(argument: str) -> str:
    return argument.partition("=")[0].partition(".")[0]


def _dashed(flag: str) -> str:
    """A long flag with dashes for underscores; others as they are."""
    return flag.replace("_", "-") if flag.startswith("--") else flag
