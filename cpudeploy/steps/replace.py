"""The operations that put one container in another's place and prove it.

Beside: the new one is proven on the internal network while the old one serves, then they swap names and the
published network. Stop-first: the old one is stopped and renamed, then the new one is created in its place.
Either way the old one is removed only when the new one has passed its gate, and a guard on the host puts it
back when we can't. Secrets lie in a folder of the release, so that what is kept still has its own.
"""

from __future__ import annotations

from ..types.names import base_name
from ..types.operation import (
    ConnectNetwork,
    DisconnectNetwork,
    Drain,
    GuardCommit,
    HoldBack,
    Operation,
    Prove,
    RemoveContainer,
    RenameContainer,
    RestartPolicy,
    StartContainer,
    StopContainer,
)
from ..types.release import Diagnosis, Instance, identity
from ..types.resolved import ResolvedImage
from .blocks import (
    ENGINE_S,
    Rollout,
    connecting,
    creating,
    engine,
    forgetting,
    recording,
    secrets,
    waiting,
)
from .context import HostContext
from .found import Found
from .undo import clearing, discarding, guarding

SERVING_POLICY = "unless-stopped"
_GRACE_S = 30


def creating_first(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
) -> tuple[Operation, ...]:
    """To `wanted`, proven and alone, where nothing has served before: there is nothing to guard."""
    name, release = found.name, rollout.release
    return (
        recording(context, rollout),
        *secrets(context, name, wanted, release),
        *discarding(found),
        forgetting(context, name, keep=release),
        creating(context, name, wanted, image, rollout),
        engine("start", StartContainer(container=name)),
        waiting(name, wanted, diagnose),
        *_let_serve(context, name, release),
    )


def replacing(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    *,
    beside: bool,
    draining: tuple[Drain, ...],
) -> tuple[Operation, ...]:
    """From what serves under the name to `wanted`, proven and alone, once what an interrupted change left is
    undone."""
    name, release = found.name, rollout.release
    grace_s = (found.settled.recorded or wanted).container.stop_timeout_s
    return (
        recording(context, rollout),
        *secrets(context, name, wanted, release),
        guarding(context, found, wanted, release, grace_s),
        *clearing(found, serve_in=wanted.container.networks if beside else ()),
        *(
            _beside(context, found, wanted, image, rollout, diagnose, draining)
            if beside
            else _stop_first(context, found, wanted, image, rollout, draining, grace_s)
        ),
        waiting(name, wanted, diagnose),
        *_let_serve(context, name, release),
        GuardCommit(id="commit", deadline_s=30, guard=name),
        engine("stop old", StopContainer(container=found.old_name, grace_s=grace_s)),
        # Not last: whoever dies here leaves a container that the next plan sees.
        forgetting(context, name, keep=release),
        engine("clear", RemoveContainer(container=found.old_name)),
    )


def _beside(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    diagnose: tuple[Diagnosis, ...],
    draining: tuple[Drain, ...],
) -> tuple[Operation, ...]:
    """The new one proven where nobody but us reaches it, then in the old one's place. Between the last two
    nobody serves, so nothing stands between them.

    The old one leaves the other networks first: engines before 23 pass its ports on to whatever is left when
    it leaves the published one, and hold them there.
    """
    name, coming = found.name, found.next_name
    published, *inside = wanted.container.networks
    return (
        creating(context, name, wanted, image, rollout, under=coming, networks=tuple(inside)),
        engine("start", StartContainer(container=coming)),
        waiting(coming, wanted, diagnose, id="gate beside"),
        *(engine(f"leave:{each}", DisconnectNetwork(network=each, container=name)) for each in inside),
        *draining,
        engine("keep", RenameContainer(container=name, to=found.old_name)),
        engine("take the name", RenameContainer(container=coming, to=name)),
        engine("unpublish old", DisconnectNetwork(network=published, container=found.old_name)),
        engine("publish", ConnectNetwork(network=published, container=name)),
    )


def _stop_first(
    context: HostContext,
    found: Found,
    wanted: Instance,
    image: ResolvedImage,
    rollout: Rollout,
    draining: tuple[Drain, ...],
    grace_s: int,
) -> tuple[Operation, ...]:
    name = found.name
    return (
        *draining,
        engine("stop", StopContainer(container=name, grace_s=grace_s)),
        engine("keep", RenameContainer(container=name, to=found.old_name)),
        creating(context, name, wanted, image, rollout),
        engine("start", StartContainer(container=name)),
    )


def proving(
    context: HostContext,
    found: Found,
    wanted: Instance,
    release: str,
    diagnose: tuple[Diagnosis, ...],
    unplugged: tuple[str, ...],
) -> tuple[Operation, ...]:
    """What an interrupted change left undone, then start, connect to what it was `unplugged` from, gate, and
    let it serve. A paused or restarting one begins anew.

    Its secret files are written once more: they may be what keeps it from starting.
    """
    name, stands = found.name, found.settled
    stuck = stands.current is not None and stands.current.running and not stands.up
    again = (engine("stop", StopContainer(container=name, grace_s=10)),) if stuck else ()
    return (
        *secrets(context, name, wanted, release),
        *clearing(found),
        forgetting(context, name, keep=release),
        *again,
        *connecting(name, unplugged),
        engine("start", StartContainer(container=name)),
        waiting(name, wanted, diagnose),
        *_let_serve(context, name, release),
    )


def drains(
    serving: Instance | None, name: str, wanted: Instance, drain_s: int, *, secret_changed: bool
) -> tuple[Drain, ...]:
    """A quiet moment of what serves, where somebody can tell when that is."""
    if serving is None or drain_s == 0 or not serving.container.publish:
        return ()
    busy = serving.gate.busy
    if busy is None and serving.playbook == wanted.playbook:
        busy = wanted.gate.busy  # recorded before the playbook told
    if busy is None or (secret_changed and busy.auth and serving.api_key is not None):
        return ()  # only the host knows the key that it takes
    publish = serving.container.publish[0]
    return (
        Drain(
            id="drain",
            deadline_s=drain_s,
            container=name,
            address=publish.address,
            port=publish.port,
            busy=busy,
            api_key=serving.api_key,
        ),
    )


def holding(context: HostContext, name: str, wanted: Instance, release: str) -> HoldBack:
    """That what is wanted of a container failed its gate, for when it does."""
    return HoldBack(
        id="hold",
        deadline_s=ENGINE_S,
        deployment=context.deployment.name,
        container=name,
        release=release,
        wanted=identity(wanted),
        secrets=wanted.container.secrets,
    )


def removing(context: HostContext, name: str) -> tuple[Operation, ...]:
    """Away for good, with its secrets. The container last: the next plan sees that it is still there."""
    return (
        engine("stop", StopContainer(container=name, grace_s=_GRACE_S)),
        forgetting(context, base_name(name)),
        engine("remove", RemoveContainer(container=name)),
    )


def _let_serve(context: HostContext, name: str, release: str) -> tuple[Operation, ...]:
    """The mark of a container that has passed its gate: on the engine, then in its release."""
    return (
        engine("serve", RestartPolicy(container=name, policy=SERVING_POLICY)),
        Prove(
            id="prove",
            deadline_s=30,
            deployment=context.deployment.name,
            release=release,
            container=name,
        ),
    )
