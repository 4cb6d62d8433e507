"""Two networks a deployment and host: one published, one internal where a new version is proven.

Their subnets are explicit, from the manifest's pool or our own, and clear of every route the host has: the
engine's default pools collide with company networks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from ..errors import HostError
from ..types.names import DEPLOYMENT_LABEL
from ..types.operation import CreateNetwork, Engine, RemoveNetwork
from ..types.plan import Change, Fingerprint
from .context import HostContext, pointer

POOL = "10.213.0.0/16"
"""Of a manifest that names none."""
_PREFIX = 26
_LISTED = 6
_SIZE = 1 << (32 - _PREFIX)


def network_names(deployment: str) -> tuple[str, str]:
    """The published and the internal network of a deployment."""
    return f"{deployment}_pub", f"{deployment}_int"


def network_changes(context: HostContext) -> tuple[Change, ...]:
    """Create what is missing. Raises HostError on a foreign network of that name or a full pool.

    Networks that are there keep their subnets, whatever pool is wanted now: containers are in them.
    """
    facts = context.facts
    missing = []
    for name in network_names(context.deployment.name):
        found = facts.networks.get(name)
        if found is None:
            missing.append(name)
        elif found.deployment != context.deployment.name:
            raise HostError(
                f"a network named {name} is there already and is not ours",
                where=facts.host,
                do=f"remove it (docker network rm {name}) or choose another deployment name",
            )
    if not missing:
        return ()
    subnets = _free_subnets(context, len(missing))
    return (
        Change(
            id="networks",
            phase="provision",
            step="network",
            subject="networks",
            action="create",
            why=f"deployment {context.deployment.name}",
            summary=" · ".join(f"{name} {subnet}" for name, subnet in zip(missing, subnets, strict=True)),
            before=Fingerprint(equals={pointer("networks", name): None for name in missing}),
            after=Fingerprint(
                equals={pointer("networks", name, "deployment"): context.deployment.name for name in missing}
            ),
            operations=tuple(
                Engine(
                    id=f"network:{name}",
                    deadline_s=30,
                    request=CreateNetwork(
                        network=name,
                        subnet=subnet,
                        internal=name.endswith("_int"),
                        labels={DEPLOYMENT_LABEL: context.deployment.name},
                    ),
                )
                for name, subnet in zip(missing, subnets, strict=True)
            ),
            revert=tuple(
                Engine(id=f"remove:{name}", deadline_s=30, request=RemoveNetwork(network=name))
                for name in missing
            ),
        ),
    )


def _free_subnets(context: HostContext, count: int) -> list[str]:
    """The first free ones of the pool. What is taken is stepped over whole: a pool may be large."""
    facts, wanted = context.facts, context.deployment.network_pool
    pool = ipaddress.IPv4Network(wanted or POOL)
    subnets = [subnet for network in facts.networks.values() for subnet in network.subnets]
    taken = [network for network in _networks([*facts.routes, *subnets]) if network.overlaps(pool)]
    free: list[str] = []
    start, end = int(pool.network_address), int(pool.broadcast_address)
    while len(free) < count and start + _SIZE - 1 <= end:
        candidate = ipaddress.IPv4Network((start, _PREFIX))
        behind = [int(network.broadcast_address) for network in taken if network.overlaps(candidate)]
        if not behind:
            free.append(str(candidate))
        start = max([start, *behind]) // _SIZE * _SIZE + _SIZE
    if len(free) == count:
        return free
    listed = ", ".join(sorted({str(network) for network in taken})[:_LISTED])
    raise HostError(
        f"{len(free)} of {count} networks of /{_PREFIX} are left in the pool {pool}"
        + (f": the host has {listed} there" if listed else ""),
        where=facts.host,
        do=f"choose {'another' if wanted else 'a'} pool, such as networks: {{pool: 10.214.0.0/16}}",
    )


def _networks(texts: Iterable[str]) -> Iterable[ipaddress.IPv4Network]:
    for text in texts:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if isinstance(network, ipaddress.IPv4Network) and network.prefixlen > 0:
            yield network
