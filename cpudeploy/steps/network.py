"""Two networks a deployment and host: one published, one internal where a new version is proven.

Their subnets are explicit, from our own pool, and clear of every route the host has: the engine's
default pools collide with company networks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from ..errors import HostError
from ..types.facts import Facts
from ..types.names import DEPLOYMENT_LABEL
from ..types.operation import CreateNetwork, Engine, RemoveNetwork
from ..types.plan import Change, Fingerprint
from .context import HostContext, pointer

_POOL = ipaddress.ip_network("10.213.0.0/16")
_PREFIX = 26


def network_names(deployment: str) -> tuple[str, str]:
    """The published and the internal network of a deployment."""
    return f"{deployment}_pub", f"{deployment}_int"


def network_changes(context: HostContext) -> tuple[Change, ...]:
    """Create what is missing. Raises HostError on a foreign network of that name or a full pool."""
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
    subnets = _free_subnets(facts, len(missing))
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


def _free_subnets(facts: Facts, count: int) -> list[str]:
    taken = list(_networks([*facts.routes, *(s for n in facts.networks.values() for s in n.subnets)]))
    free: list[str] = []
    for candidate in _POOL.subnets(new_prefix=_PREFIX):
        if not any(candidate.overlaps(network) for network in taken):
            free.append(str(candidate))
        if len(free) == count:
            return free
    raise HostError(
        f"no free /{_PREFIX} left in {_POOL} beside the host's routes", where=facts.host, do="free a subnet"
    )


def _networks(texts: Iterable[str]) -> Iterable[ipaddress.IPv4Network]:
    for text in texts:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if isinstance(network, ipaddress.IPv4Network) and network.prefixlen > 0:
            yield network
