"""What a change of a container says of the host before and after: statements, no operations."""

from __future__ import annotations

from collections.abc import Mapping

from ..types.facts import Disk
from ..types.plan import Fingerprint
from .context import ENGINE_ROOT, MIB, HostContext, pointer
from .found import Found
from .replace import SERVING_POLICY

_CONTAINER_BYTES = 64 * MIB
"""Disk of a new container: its layer, its configuration, its first logs."""

_COMPARED = ("id", "running", "restart_policy", "memory", "memory_swap", "cpuset", "cpuset_mems", "quota")
"""Not the status: one that restarts endlessly is now restarting, now running."""


def before(context: HostContext, found: Found, *, memory: int = 0) -> Fingerprint:
    """As found, with room for another container: on a full disk the old one would be stopped in vain.
    `memory`: bytes that must be free."""
    at_least = {pointer("memory", "available"): memory} if memory else {}
    root = context.facts.engine.root or ENGINE_ROOT
    if isinstance(context.facts.disks.get(root), Disk):
        at_least[pointer("disks", root, "free")] = _CONTAINER_BYTES
    return Fingerprint(equals=as_found(found).equals, at_least=at_least)


def as_found(found: Found) -> Fingerprint:
    """What stands there by identity, and all that a comparison with what is wanted looks at."""
    equals: dict[str, object] = {}
    for name, container in (
        (found.name, found.current),
        (found.old_name, found.old),
        (found.next_name, found.next),
    ):
        if container is None:
            # The field, not the whole: a mismatch is told, and a container is a page long.
            equals[pointer("containers", name, "id")] = None
            continue
        for field in _COMPARED:
            equals[pointer("containers", name, field)] = getattr(container, field)
        equals[pointer("containers", name, "network_ids")] = container.network_ids
        if container.mark is not None:
            equals[pointer("containers", name, "mark", "release")] = container.mark.release
    return Fingerprint(equals=equals)


def after(found: Found, release: str, networks: Mapping[str, str] | None = None) -> Fingerprint:
    """Of `release`, proven and alone. `networks`: those it is in again, with their ids."""
    connected = {
        pointer("containers", found.name, "network_ids", name): identity
        for name, identity in (networks or {}).items()
    }
    return Fingerprint(
        equals={
            **connected,
            pointer("containers", found.name, "mark", "release"): release,
            pointer("containers", found.name, "status"): "running",
            pointer("containers", found.name, "restart_policy"): SERVING_POLICY,
            pointer("containers", found.old_name, "id"): None,
            pointer("containers", found.next_name, "id"): None,
        }
    )
