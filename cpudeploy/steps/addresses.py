"""Where models answer on a host: the one address behind `listen`, and ports nobody else may hold.

In: a placement or the wanted instances, and facts. Out: an address, or HostError in words. A wish that
stands for no address or for several is an error, never a choice that the next plan might make otherwise.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import HostError
from ..manifest.listen import is_interface, meet
from ..types.deployment import Host, Placement
from ..types.facts import Facts
from ..types.names import base_name
from ..types.release import Instance
from .context import HostContext
from .found import is_ours

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def listen_address(placement: Placement, host: Host, facts: Facts) -> str:
    """The IP address to publish on: as written, the host's own in a network or on an interface, or the one
    of `host`.

    Where several are meant, the one ssh connects to. Raises HostError listing the host's addresses (its
    interfaces) when none is left, or more than one.
    """
    listen = placement.listen
    own = [ipaddress.ip_address(address) for address in facts.addresses]
    if is_interface(listen):
        own = _on_interface(placement, host, facts)
    reached = [address for address in own if str(address) == host.ssh.address]
    if is_interface(listen):
        found = _preferred(reached) or _preferred(own)
    elif listen == "host" or "/" in listen:
        found = _meant(listen, reached) or _meant(listen, _without_bridges(own, facts))
    else:
        address = ipaddress.ip_address(listen)
        found = [address] if address in own or not own or _not_in_facts(address) else []
    if len(found) == 1:
        return str(found[0])
    listed = ", ".join(str(address) for address in found or own)
    raise HostError(
        f"listen: {listen} stands for several of the host's addresses ({listed})"
        if found
        else f"listen: {listen} matches none of the host's addresses ({listed or 'none known'})",
        where=f"{host.name} {placement.model}",
        do="write the one that is meant" if found else "write one of them, or 127.0.0.1",
    )


def _on_interface(placement: Placement, host: Host, facts: Facts) -> list[_Address]:
    """The addresses of the interface that is meant. Raises HostError listing those of the host."""
    addresses = facts.interfaces.get(placement.listen)
    found = [ipaddress.ip_address(address) for address in addresses or ()]
    found = [address for address in found if not address.is_link_local]
    if found:
        return found
    listed = ", ".join(f"{name} {' '.join(its)}".strip() for name, its in facts.interfaces.items())
    raise HostError(
        f"listen: {placement.listen} is no interface of the host ({listed or 'none known'})"
        if addresses is None
        else f"listen: interface {placement.listen} has no address of its own ({listed})",
        where=f"{host.name} {placement.model}",
        do="write one of them, or an address" if listed else "write an address",
    )


def _preferred(addresses: list[_Address]) -> list[_Address]:
    """IPv4 addresses where there are any: IPv6 ones come and go."""
    return [address for address in addresses if address.version == 4] or addresses


def _meant(listen: str, addresses: list[_Address]) -> list[_Address]:
    """Those `listen` stands for."""
    if listen == "host":
        return _preferred(addresses)
    network = ipaddress.ip_network(listen)
    return [address for address in addresses if address in network]


def _without_bridges(addresses: list[_Address], facts: Facts) -> list[_Address]:
    """Without the host's ends of the engine's bridges: they come and go with networks, ours included."""
    bridges = [
        ipaddress.ip_network(subnet, strict=False)
        for network in facts.networks.values()
        if network.driver == "bridge"
        for subnet in network.subnets
    ]
    return [address for address in addresses if not any(address in bridge for bridge in bridges)]


def _not_in_facts(address: _Address) -> bool:
    """Addresses that facts leave out, so that nothing follows from their absence."""
    return address.is_loopback or address.is_unspecified or address.is_link_local


@dataclass(frozen=True)
class _Holder:
    """Somebody who has a port of the host, or will."""

    name: str
    address: str
    port: int
    do: str = "choose another port, or stop what listens there"

    def holds(self, address: str, port: int) -> bool:
        return self.port == port and meet(self.address, address)


def refuse_taken_ports(context: HostContext, instances: Mapping[str, Instance]) -> None:
    """Raises HostError when two wanted instances meet on a port, or somebody else holds one.

    `instances`: everything the deployment will run on this host, by container name. Ports that the
    deployment's own containers hold now are free: they keep them or move away.
    """
    holders = [*_foreign_containers(context), *_foreign_sockets(context)]
    for instance in instances.values():
        publishes = instance.container.publish
        for publish in publishes:
            for holder in holders:
                if holder.holds(publish.address, publish.port):
                    raise HostError(
                        f"port {publish.port} is taken on {holder.address} by {holder.name}",
                        where=f"{context.host.name} {instance.model}",
                        do=holder.do,
                    )
        holders += [
            _Holder(f"model {instance.model}", publish.address, publish.port, "give one of them another port")
            for publish in publishes
        ]


def holders_of(context: HostContext, instance: Instance) -> frozenset[str]:
    """Names (as they are when nothing is replaced) of our containers that have one of its ports now."""
    return frozenset(
        base_name(name)
        for name, container in context.facts.containers.items()
        if container.running and is_ours(context, container)
        for theirs in container.publish
        if any(
            _Holder("", each.address, each.port).holds(theirs.address, theirs.port)
            for each in instance.container.publish
        )
    )


def _foreign_containers(context: HostContext) -> Iterator[_Holder]:
    """Running containers of others: named, and known even where the engine listens for none of them."""
    for name, container in context.facts.containers.items():
        if container.running and not is_ours(context, container):
            for publish in container.publish:
                mark = container.mark
                whose = "something that is not ours" if mark is None else f"of deployment {mark.deployment}"
                yield _Holder(f"container {name}, {whose}", publish.address, publish.port)


def _foreign_sockets(context: HostContext) -> Iterator[_Holder]:
    """Whatever listens on the host, but for the engine on behalf of our own containers."""
    ours = [
        _Holder("", publish.address, publish.port)
        for container in context.facts.containers.values()
        if container.running and is_ours(context, container)
        for publish in container.publish
    ]
    ports = context.facts.ports
    for listening in ports if isinstance(ports, tuple) else ():
        if not any(own.holds(listening.address, listening.port) for own in ours):
            yield _Holder("something that is not ours", listening.address, listening.port)
