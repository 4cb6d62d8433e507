"""Deployment + Facts + Resolved → one Allocation per instance. Pure and stable.

Depends only on what lasts: usable cores, total memory, reserves, what others hold, and what already
runs. Free memory of the moment is a check of the plan, never an input here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import NoRoom
from ..types.allocation import Allocation
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.resolved import Resolved
from .elsewhere import another_host
from .host import Sizing


def allocate(
    deployment: Deployment,
    host: str,
    facts: Facts,
    resolved: Resolved,
    playbooks: Mapping[str, Playbook],
    *,
    repack: bool = False,
    awaited: Sequence[Placement] = (),
    fleet: Mapping[str, Facts] | None = None,
) -> dict[str, Allocation]:
    """Model → allocation, for every placement on `host`. Raises DoesNotFit, naming what would fit, and NotYet
    for a model whose memory nobody can work out.

    repack: as if nothing of ours ran, so that all is dealt out anew. awaited: what is to come to this
    host and nobody can size yet: cores are left to it where there are any. fleet: facts of every host, among
    which another place is looked for.
    """
    sizing = Sizing(deployment, resolved, playbooks, repack)
    try:
        return sizing.allocate(host, facts, awaited)
    except NoRoom as error:
        ways = [error.do, another_host(sizing, host, facts, fleet or {})]
        raise NoRoom(error.what, where=error.where, do=", or ".join(filter(None, ways))) from None
