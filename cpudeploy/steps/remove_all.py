"""Everything one deployment owns on a host, taken away: containers, networks, state, weights only it used.

What other deployments use stays, and so do the engine, its packages, its images and its certificates.
"""

from __future__ import annotations

from ..types.names import STATE_DIR
from ..types.operation import Engine, RemoveContainer, RemoveNetwork, StopContainer
from ..types.plan import Change, Fingerprint
from .context import HostContext, pointer, script


def remove_all_changes(context: HostContext) -> tuple[Change, ...]:
    """Removals in order: containers, then networks, then files."""
    name = context.deployment.name
    facts = context.facts
    changes = [
        Change(
            id=f"container:{container}",
            phase="replace",
            step="container",
            subject=found.mark.model,
            action="remove",
            why="destroy",
            summary=f"container {container}",
            before=Fingerprint(equals={pointer("containers", container, "id"): found.id}),
            after=Fingerprint(equals={pointer("containers", container): None}),
            operations=(
                Engine(id="stop", deadline_s=90, request=StopContainer(container=container, grace_s=30)),
                Engine(id="remove", deadline_s=60, request=RemoveContainer(container=container)),
            ),
            revert=None,
        )
        for container, found in sorted(facts.containers.items())
        if found.mark is not None and found.mark.deployment == name
    ]
    networks = sorted(key for key, network in facts.networks.items() if network.deployment == name)
    if networks:
        changes.append(
            Change(
                id="networks",
                phase="replace",
                step="network",
                subject="networks",
                action="remove",
                why="destroy",
                summary=" · ".join(networks),
                before=Fingerprint(equals={pointer("networks", key, "deployment"): name for key in networks}),
                after=Fingerprint(equals={pointer("networks", key): None for key in networks}),
                operations=tuple(
                    Engine(id=f"remove:{key}", deadline_s=60, request=RemoveNetwork(network=key))
                    for key in networks
                ),
                revert=None,
            )
        )
    if name in facts.releases:
        changes.append(
            Change(
                id="state",
                phase="replace",
                step="state",
                subject="state",
                action="remove",
                why="destroy",
                summary="releases, secrets, and weights that no other deployment uses",
                before=Fingerprint(at_least={}),
                after=Fingerprint(equals={pointer("releases", name): None}),
                operations=(
                    script(
                        "forget",
                        {"state": STATE_DIR, "deployment": name, "weights": context.host.weights_dir},
                        id="forget",
                        deadline_s=300,
                    ),
                ),
                revert=None,
            )
        )
    return tuple(changes)
