"""Does everything a host is to fetch fit on its disks together? Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import HostError
from ..steps.context import GIB
from ..types.facts import Disk, Facts
from ..types.plan import Change
from ..types.words import decimal_size

_MARGIN = GIB
"""Free bytes left on a disk in any case: a full one takes the whole host down."""


def refuse_full_disks(facts: Facts, changes: Iterable[Change]) -> None:
    """Raises HostError naming the disk, what is to go there, and what is free."""
    needs: dict[str, dict[str, int]] = {}
    disks: dict[str, Disk] = {}
    for change in changes:
        for at, size in change.before.at_least.items():
            _, kind, folder, *rest = (part.replace("~1", "/").replace("~0", "~") for part in at.split("/"))
            disk = facts.disks.get(folder)
            if kind == "disks" and rest == ["free"] and isinstance(disk, Disk):
                disks[disk.mount] = disk
                parts = needs.setdefault(disk.mount, {})
                parts[change.subject] = parts.get(change.subject, 0) + size
    for mount, parts in needs.items():
        needed = sum(parts.values()) + _MARGIN
        if needed > disks[mount].free:
            told = ", ".join(f"{subject} {decimal_size(size)}" for subject, size in parts.items())
            raise HostError(
                f"the disk of {mount} has {decimal_size(disks[mount].free)} free, "
                f"{decimal_size(needed)} are needed ({told}, and a margin of {decimal_size(_MARGIN)})",
                where=facts.host,
                do="free disk space there, or set dirs: {weights: …} to a larger disk",
            )
