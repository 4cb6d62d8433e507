"""Containers of ours that a plan does not touch: of models that can't be planned, or that another manifest
applied. Pure.

Two manifests may have taken the same name, and one be a copy of the other: what was applied from another
place is removed only by who says that it is theirs now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from ..steps.context import HostContext
from ..steps.found import is_ours
from ..steps.volume import our_volumes
from ..types.names import base_name, container_name
from ..types.origin import same_origin
from ..types.release import by_age, read_release


def containers_of(context: HostContext, models: Collection[str]) -> frozenset[str]:
    """Our containers of `models`."""
    return frozenset(
        name
        for name, container in context.facts.containers.items()
        if is_ours(context, container) and container.mark is not None and container.mark.model in models
    )


def as_strangers(context: HostContext, containers: Collection[str]) -> HostContext:
    """With `containers` as if they were somebody else's: what they hold is not to be given away."""
    facts = context.facts
    shown = {
        name: msgspec.structs.replace(container, mark=None) if name in containers else container
        for name, container in facts.containers.items()
    }
    return replace(context, facts=msgspec.structs.replace(facts, containers=shown))


def applied_elsewhere(context: HostContext, wanted: Collection[str], origin: str) -> dict[str, str]:
    """Our containers that are not `wanted` and that the newest release which names them has from another
    origin: name → that origin. Where no record tells, they count as ours."""
    found = {}
    for name, container in sorted(context.facts.containers.items()):
        if is_ours(context, container) and base_name(name) not in wanted:
            other = _origin(context, base_name(name))
            if other and not same_origin(other, origin):
                found[name] = other
    return found


def models_elsewhere(context: HostContext, origin: str) -> frozenset[str]:
    """Models whose volumes are there and that another origin applied, whether a container of them is there
    or not."""
    models = set(our_volumes(context).values())
    names = {model: container_name(context.deployment.name, model, 0) for model in models}
    return frozenset(
        model
        for model, name in names.items()
        if (other := _origin(context, name)) and not same_origin(other, origin)
    )


def state_elsewhere(context: HostContext, origin: str) -> str:
    """Another origin that applied last on this host; empty where it was this one, or nobody."""
    other = _origin(context, "")
    return "" if same_origin(other, origin) else other


def told(context: HostContext, elsewhere: Mapping[str, str]) -> dict[str, str]:
    """Model → why its containers are left alone."""
    return {
        mark.model: why_left_alone(origin)
        for name, origin in elsewhere.items()
        if (mark := context.facts.containers[name].mark) is not None
    }


def why_left_alone(origin: str) -> str:
    """What is said of something that was applied from `origin`."""
    return f"left alone, it was applied from {origin}; do: if it is yours now, remove it with --adopt"


def _origin(context: HostContext, container: str) -> str:
    """Where the newest release came from that names the container, or any; empty when none does."""
    documents = context.facts.releases.get(context.deployment.name, {})
    for id in reversed(by_age(documents)):
        release = read_release(documents[id])
        if release is not None and (not container or container in release.instances):
            return release.origin
    return ""
