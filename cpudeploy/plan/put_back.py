"""A recorded instance as what is wanted: nobody is asked for it, all of it is in its release. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..steps.blocks import Rollout
from ..steps.container import container_changes
from ..steps.context import HostContext
from ..steps.health import usual_start_s
from ..types.plan import Change
from ..types.playbook import Playbook
from ..types.release import Instance
from ..types.resolved import Resolved, ResolvedImage, ResolvedWeights, SecretState


def image_digest(instance: Instance) -> str:
    """`sha256:…` of the image it runs."""
    return instance.container.image.rpartition("@")[2]


def changes_to(
    context: HostContext,
    instance: Instance,
    rollout: Rollout,
    playbooks: Mapping[str, Playbook],
    secrets: Mapping[str, SecretState],
) -> tuple[Change, ...]:
    """What brings a host to `instance` as it was recorded; the same as for one that a manifest wants."""
    image = ResolvedImage(
        reference=instance.image_reference or instance.container.image.partition("@")[0],
        digest=image_digest(instance),
        authority="release",
        # Found by its digest under whatever name the engine holds it.
        places=(),
        platforms=(),
        size=0,
    )
    weights = ResolvedWeights(tree=instance.tree, source=instance.source, revision="", files=(), entry="")
    known = Resolved(weights={f"{instance.model}@{context.host.name}": weights}, secrets=dict(secrets))
    playbook = playbooks.get(instance.playbook)
    return container_changes(
        replace(context, resolved=known),
        instance,
        image,
        rollout,
        playbook.diagnose if playbook else (),
        usual_start_s(playbook, bytes_held(context, instance)),
    )


def bytes_held(context: HostContext, instance: Instance) -> int:
    """Bytes of its weights, as far as the host tells."""
    sizes = {blob.inode: blob.size for blob in context.facts.weights.blobs.values()}
    inodes = context.facts.weights.trees.get(instance.tree, {}).values()
    return sum(sizes.get(inode, 0) for inode in inodes)
