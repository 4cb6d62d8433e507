"""Which address clients connect to: what `listen` comes to, also before anybody asked the host. Pure.

In: a placement, its host, and the host's facts where there are any. Out: an address, or the name ssh knows.
"""

from __future__ import annotations

import ipaddress

import msgspec

from ..errors import HostError
from ..manifest.listen import is_interface
from ..types.deployment import Host, Placement
from ..types.facts import Facts
from .addresses import listen_address


def client_address(placement: Placement, host: Host, facts: Facts | None) -> str:
    """Of what listens everywhere, the address the host is reached by. Raises HostError for an address that
    only the host can tell, while it has not, and for one that it does not have."""
    listen = placement.listen
    if not is_interface(listen) and listen != "host" and "/" not in listen:
        if not ipaddress.ip_address(listen).is_unspecified:
            return listen if facts is None else listen_address(placement, host, facts)
        if host.connection == "ssh":
            return host.ssh.address
        listen = "host"
    if facts is not None:
        return listen_address(msgspec.structs.replace(placement, listen=listen), host, facts)
    # As the plan chooses among several: the address that ssh connects to.
    reached = None if is_interface(listen) else _numeric(host)
    if reached is not None and (listen == "host" or reached in ipaddress.ip_network(listen)):
        return str(reached)
    raise HostError(
        f"listen: {placement.listen} stands for an address that only the host can tell",
        do=f"record its facts (cpudeploy facts -o DIR --limit {host.name}) and give --facts DIR, "
        "or write the address",
    )


def _numeric(host: Host) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address ssh connects to, where it is no name."""
    try:
        return ipaddress.ip_address(host.ssh.address) if host.connection == "ssh" else None
    except ValueError:
        return None
