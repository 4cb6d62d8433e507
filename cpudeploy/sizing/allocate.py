"""Deployment + Facts + Resolved → one Allocation per instance. Pure and stable.

Depends only on what lasts: usable cores, total memory, reserves, what others hold, and what already
runs. Free memory of the moment is a check of the plan, never an input here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import NoRoom
from ..types.allocation import Allocation
from ..types.deployment import Deployment
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
    fleet: Mapping[str, Facts] | None = None,
) -> dict[str, Allocation]:
    """Model → allocation, for every placement on `host`. Raises DoesNotFit, naming what would fit, and NotYet
    for a model whose memory nobody can work out.

    repack: as if nothing of ours ran, so that all is dealt out anew. fleet: facts of every host, among which
    another place is looked for.
    """
    sizing = Sizing(deployment, resolved, playbooks, repack)
    try:
        return sizing.allocate(host, facts)
    except NoRoom as error:
        ways = [error.do, another_host(sizing, host, facts, fleet or {})]
        raise NoRoom(error.what, where=error.where, do=", or ".join(filter(None, ways))) from None
