"""Machines to deal cores of, by their shape."""

from __future__ import annotations

import msgspec

from cpudeploy.types.base import Unknown
from cpudeploy.types.facts import Core, Facts, Node
from tests.factories import GIB, cores, facts


def hybrid(fast: int, slow: int, *, smt: int = 2, speeds: tuple[int, int] = (1000, 700)) -> Facts:
    """Fast cores first, with SMT; then slow ones without."""
    quick = tuple(
        Core(cpus=tuple(range(i * smt, i * smt + smt)), socket=0, node=0, speed=speeds[0])
        for i in range(fast)
    )
    rest = tuple(Core(cpus=(fast * smt + i,), socket=0, node=0, speed=speeds[1]) for i in range(slow))
    return facts(cores=quick + rest)


def numa(per_node: int, nodes: int, *, smt: int = 1, memory: int = 16 * GIB) -> Facts:
    """`nodes` equal NUMA nodes with `memory` bytes each."""
    usable = cores(per_node * nodes, smt=smt, nodes=nodes)
    found = facts(cores=usable, memory=memory * nodes)
    each = tuple(
        Node(
            id=node,
            memory=memory,
            cpus=tuple(cpu for core in usable if core.node == node for cpu in core.cpus),
        )
        for node in range(nodes)
    )
    return msgspec.structs.replace(found, memory=msgspec.structs.replace(found.memory, nodes=each))


def untold(cpus: int, *, arch: str = "amd64", quota: float | None = None, nodes: int = 1) -> Facts:
    """A host that tells its CPUs and not which of them share a core."""
    found = numa(cpus // nodes, nodes)
    return msgspec.structs.replace(
        found,
        os=msgspec.structs.replace(found.os, arch=arch),
        cpu=msgspec.structs.replace(found.cpu, cores=Unknown(unknown="no topology"), quota=quota),
    )
