"""Everything one deployment owns on a host, taken away: containers, volumes, networks, state, weights only it
used.

What other deployments use stays, and so do the engine, its packages and its images; what was set in it is put
back.
"""

from __future__ import annotations

from collections.abc import Collection

from ..errors import HostError
from ..types.names import STATE_DIR
from ..types.operation import Engine, RemoveNetwork
from ..types.plan import Change, Fingerprint
from .container import removal
from .context import HostContext, pointer, script
from .docker_daemon import daemon_removal_changes
from .found import is_ours
from .volume import volume_removals


def remove_all_changes(
    context: HostContext,
    why: str,
    *,
    spared: Collection[str] = (),
    spared_models: Collection[str] = (),
    keep_state: bool = False,
) -> tuple[Change, ...]:
    """Removals in order: containers but for those `spared`, volumes but for those of `spared_models`,
    networks, engine settings, files. With `keep_state` only the first two go: the rest is still needed.

    Raises HostError while an installed engine is down: its containers would come back with it.
    """
    facts = context.facts
    if facts.engine.state == "stopped":
        raise HostError(
            "the Docker engine is stopped, so what it holds of this deployment can't be seen or removed",
            where=context.host.name,
            do="start it (systemctl start docker), then run this again",
        )
    changes = [
        *(
            removal(context, name, why)
            for name, container in sorted(facts.containers.items())
            if is_ours(context, container) and name not in spared
        ),
        *volume_removals(context, spared_models, why),
    ]
    if keep_state:
        return tuple(changes)
    return (
        *changes,
        *_networks(context, why),
        *daemon_removal_changes(context, why),
        *_state(context, why),
    )


def _networks(context: HostContext, why: str) -> tuple[Change, ...]:
    ours = context.deployment.name
    names = sorted(key for key, network in context.facts.networks.items() if network.deployment == ours)
    if not names:
        return ()
    return (
        Change(
            id="networks",
            phase="replace",
            step="network",
            subject="networks",
            action="remove",
            why=why,
            summary=" · ".join(names),
            before=Fingerprint(equals={pointer("networks", key, "deployment"): ours for key in names}),
            after=Fingerprint(equals={pointer("networks", key): None for key in names}),
            operations=tuple(
                Engine(id=f"remove:{key}", deadline_s=60, request=RemoveNetwork(network=key)) for key in names
            ),
            revert=None,
        ),
    )


def _state(context: HostContext, why: str) -> tuple[Change, ...]:
    ours = context.deployment.name
    refs = sorted(ref for ref in context.facts.weights.refs if ref.partition(".")[0] == ours)
    if ours not in context.facts.releases and not refs:
        return ()
    gone = {pointer("releases", ours): None, **{pointer("weights", "refs", ref): None for ref in refs}}
    args = {"state": STATE_DIR, "deployment": ours, "weights": context.host.weights_dir}
    return (
        Change(
            id="state",
            phase="replace",
            step="state",
            subject="state",
            action="remove",
            why=why,
            summary="releases, secrets, and weights that no other deployment uses",
            before=Fingerprint(),
            after=Fingerprint(equals=gone),
            operations=(script("forget", args, id="forget", deadline_s=300),),
            revert=None,
        ),
    )
