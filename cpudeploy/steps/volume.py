"""Volumes that models keep from container to container: whose they are, and which go.

The engine makes one, with our label, when it makes the container that mounts it. It goes with its model, in a
change of its own after the last container: cut off between them, the next plan finds it by its label.
"""

from __future__ import annotations

from collections.abc import Collection

from ..errors import HostError
from ..types.names import model_of_volume
from ..types.operation import Engine, RemoveVolume
from ..types.plan import Change, Fingerprint
from ..types.release import Instance
from .context import HostContext, pointer
from .found import is_ours

_DEADLINE_S = 300
"""Caches of compilers are many small files."""


def refuse_foreign_volumes(context: HostContext, wanted: Instance) -> None:
    """Raises HostError where a volume that `wanted` would write to is there and not ours."""
    ours = our_volumes(context)
    for mount in wanted.container.mounts:
        if mount.source in context.facts.volumes and mount.source not in ours:
            raise HostError(
                f"a volume named {mount.source} is there already and is not ours",
                where=context.host.name,
                do=f"remove it (docker volume rm {mount.source}), or choose another deployment or model name",
            )


def our_volumes(context: HostContext) -> dict[str, str]:
    """Volume → the model it is of. One without a label that a container of ours mounts is ours, too: somebody
    brought it back from elsewhere, or made it before the container was."""
    facts, deployment = context.facts, context.deployment.name
    mounted = {name for each in facts.containers.values() if is_ours(context, each) for name in each.volumes}
    return {
        name: model
        for name, volume in sorted(facts.volumes.items())
        if (model := model_of_volume(deployment, name))
        and (volume.deployment == deployment or (not volume.deployment and name in mounted))
    }


def volume_removals(context: HostContext, staying: Collection[str], why: str) -> tuple[Change, ...]:
    """Our volumes away, but those of the models `staying`."""
    return tuple(
        volume_removal(context, name, model, why)
        for name, model in our_volumes(context).items()
        if model not in staying
    )


def volume_removal(context: HostContext, name: str, model: str, why: str) -> Change:
    """One volume of ours, away for good."""
    label = context.facts.volumes[name].deployment
    return Change(
        id=f"volume:{name}",
        phase="replace",
        step="volume",
        subject=name,
        action="remove",
        why=why,
        summary=f"volume of {model}",
        before=Fingerprint(equals={pointer("volumes", name, "deployment"): label}),
        after=Fingerprint(equals={pointer("volumes", name): None}),
        operations=(
            Engine(
                id="remove", deadline_s=_DEADLINE_S, request=RemoveVolume(volume=name, unmarked=not label)
            ),
        ),
        revert=None,
    )
