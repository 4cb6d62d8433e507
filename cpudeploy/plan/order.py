"""In which order a host's containers change. Pure.

A port goes on to another model only after the one that has it now has left it. Apart from that what goes is
last: it may be the same model under another name, and serves until the one that comes has proven itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import HostError
from ..steps.addresses import holders_of
from ..steps.context import HostContext
from ..steps.way import room_for_all
from ..types.names import base_name
from ..types.plan import Change
from ..types.release import Instance


def in_order(
    context: HostContext, coming: Sequence[Change], going: Sequence[Change], instances: Mapping[str, Instance]
) -> tuple[Change, ...]:
    """The changes of containers in their order. `coming`: to `instances`, by container name; `going`:
    removals, first where there is no room for both.

    Raises HostError where models would have to swap ports.
    """
    left = [*coming, *going] if room_for_all(context, instances) else [*going, *coming]
    waits_for = {
        change.id: holders_of(context, instances[_name(change)]) - {_name(change)} for change in coming
    }
    done: list[Change] = []
    while left:
        there = {base_name(_name(change)) for change in left}
        ready = next((each for each in left if not waits_for.get(each.id, frozenset()) & there), None)
        if ready is None:
            raise _swapped(context, left)
        left.remove(ready)
        done.append(ready)
    return tuple(done)


def last_removals(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The removals that nothing follows: nobody waits for what they free."""
    behind = max((n for n, each in enumerate(changes, start=1) if each.action != "remove"), default=0)
    return tuple(changes[behind:])


def _name(change: Change) -> str:
    return change.id.removeprefix("container:")


def _swapped(context: HostContext, left: Sequence[Change]) -> HostError:
    models = ", ".join(dict.fromkeys(change.subject for change in left))
    return HostError(
        f"models {models} would have to swap ports, and a port goes on only when it is free",
        where=context.host.name,
        do="give one of them a port that nobody has, apply, then give it the one it is to have",
    )
