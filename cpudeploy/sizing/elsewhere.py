"""Where else a model would fit when its host is full. Pure; everything told was tried with the very sizing
that refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from ..errors import DoesNotFit, NotYet
from ..types.base import Unknown
from ..types.deployment import HostPath, Placement
from ..types.facts import Facts
from .host import Sizing


def another_host(sizing: Sizing, host: str, facts: Facts, fleet: Mapping[str, Facts]) -> str:
    """Which model could leave this full host, and which other of the manifest's hosts has room for it."""
    ways = []
    for placement in sizing.deployment.placements:
        if placement.host != host or isinstance(placement.source, HostPath):
            continue
        rest = _with(sizing, (other for other in sizing.deployment.placements if other is not placement))
        others = (name for name, known in fleet.items() if _takes(sizing, placement, name, known))
        if _fits(rest, host, facts) and (other := next(others, None)) is not None:
            ways.append(f"move {placement.model} to {other}, where it fits")
    if ways:
        return ", or ".join(ways)
    several = len(sizing.deployment.hosts) > 1
    return "use another host" + (" (none of this manifest is known to have room)" if several else "")


def _takes(sizing: Sizing, placement: Placement, host: str, facts: Facts) -> bool:
    """Whether a host would run it beside all it has."""
    target = sizing.deployment.hosts.get(host)
    there = (other.model for other in sizing.deployment.placements if other.host == host)
    if target is None or target.retired or facts.root == "none" or placement.model in there:
        return False
    moved = msgspec.structs.replace(placement, host=host)
    weights = dict(sizing.resolved.weights)
    weights[f"{placement.model}@{host}"] = weights[f"{placement.model}@{placement.host}"]
    more = replace(sizing, resolved=msgspec.structs.replace(sizing.resolved, weights=weights))
    return _runs(sizing, placement, facts) and _fits(
        _with(more, (*sizing.deployment.placements, moved)), host, facts
    )


def _runs(sizing: Sizing, placement: Placement, facts: Facts) -> bool:
    """Whether its image was built for that machine, and its engine finds the CPU flags it may need."""
    image = sizing.resolved.images.get(placement.backend)
    playbook = sizing.playbooks[sizing.deployment.backends[placement.backend].playbook]
    flags = () if isinstance(facts.cpu.flags, Unknown) else facts.cpu.flags
    needed = {flag for each in playbook.cpu if each.arch in (None, facts.os.arch) for flag in each.flags}
    return (image is None or image.built_for(facts.os.arch)) and needed <= set(flags)


def _fits(sizing: Sizing, host: str, facts: Facts) -> bool:
    """False also where nobody looked up what else the host is to run."""
    mine = (placement for placement in sizing.deployment.placements if placement.host == host)
    if any(f"{each.model}@{host}" not in sizing.resolved.weights for each in mine):
        return False
    try:
        sizing.allocate(host, facts)
    except (DoesNotFit, NotYet):
        return False
    return True


def _with(sizing: Sizing, placements: Iterable[Placement]) -> Sizing:
    return replace(
        sizing, deployment=msgspec.structs.replace(sizing.deployment, placements=tuple(placements))
    )
