"""The ways back: what undoes a change of one container, on the host without us, in a failed apply, or in the
apply that comes after an interrupted one. All three end with what served before, alone under its name.
"""

from __future__ import annotations

import msgspec

from ..types.facts import Container
from ..types.operation import (
    GuardArm,
    GuardCommit,
    Operation,
    RemoveContainer,
    RenameContainer,
    StartContainer,
    StopContainer,
)
from ..types.release import Instance
from .blocks import away, connecting, engine, waiting
from .context import HostContext, script
from .found import Found

_GUARD_AFTER_S = 30
_SETTLING_S = 10
"""Beyond its grace time, for a container that was being stopped when the guard ran."""


def guarding(context: HostContext, found: Found, wanted: Instance, release: str, grace_s: int) -> GuardArm:
    """What serves, guarded against the change to `release`. `grace_s`: how long it may take to stop."""
    args = {
        "name": found.name,
        "old": found.old_name,
        "next": found.next_name,
        "deployment": context.deployment.name,
        "release": release,
        "networks": " ".join(wanted.container.networks),
        "settling_s": str(grace_s + _SETTLING_S),
    }
    revert = script("guard-container", args, id="put back", deadline_s=300)
    return GuardArm(id="guard", deadline_s=30, guard=found.name, after_s=_GUARD_AFTER_S, revert=revert)


def undoing(found: Found, wanted: Instance, release: str, *, secret_changed: bool) -> tuple[Operation, ...]:
    """Away with the new container (of `release`, no other); what served comes back and is proven again. Its
    guard is taken away last."""
    name, served = found.name, found.settled
    gone = (away("remove next", found.next_name, release), away("remove new", name, release))
    if not served.proven:
        return gone
    back = (
        *gone,
        engine("put back", RenameContainer(container=found.old_name, to=name)),
        *connecting(name, wanted.container.networks),
        engine("start old", StartContainer(container=name)),
    )
    if served.recorded is not None:
        # The old one has its own key, which only the host knows once the manifest's has changed.
        back = (*back, waiting(name, _without_key(served.recorded) if secret_changed else served.recorded))
    return (*back, GuardCommit(id="commit", deadline_s=30, guard=name, lenient=True))


def clearing(found: Found, *, serve_in: tuple[str, ...] = ()) -> tuple[Operation, ...]:
    """What an interrupted change left, undone: afterwards `found.settled` stands alone. `serve_in`: networks
    in which it serves then, too, as it is going to be replaced from beside."""
    name, done = found.name, _without_next(found)
    if found.old is None:
        return tuple(done)
    if found.proven:
        # That change had passed its gate: what it kept is of no use to anybody.
        return (*done, engine("remove leftover", RemoveContainer(container=found.old_name)))
    if found.current is not None:
        done.append(away("remove new", name, _release(found.current)))
    done.append(engine("put back", RenameContainer(container=found.old_name, to=name)))
    if serve_in:
        done += [*connecting(name, serve_in), engine("start old", StartContainer(container=name))]
    return tuple(done)


def discarding(found: Found) -> tuple[Operation, ...]:
    """The name freed of what never served anybody."""
    done = _without_next(found)
    if found.current is not None:
        done.append(engine("stop", StopContainer(container=found.name, grace_s=10)))
        done.append(engine("remove unproven", RemoveContainer(container=found.name)))
    return tuple(done)


def _without_next(found: Found) -> list[Operation]:
    return [away("remove next", found.next_name, _release(found.next))] if found.next is not None else []


def _without_key(instance: Instance) -> Instance:
    open_checks = tuple(check for check in instance.gate.checks if not check.auth)
    gate = msgspec.structs.replace(instance.gate, checks=open_checks)
    return msgspec.structs.replace(instance, api_key=None, gate=gate)


def _release(container: Container) -> str:
    return container.mark.release if container.mark is not None else ""
