"""What `listen` may say, and which addresses meet on one port. In: text. Out: a fault, yes or no. Pure.

Whether a host has such an address is for `steps/addresses.py`, which knows the host's facts.
"""

from __future__ import annotations

import ipaddress
import re

_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,14}")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def listen_fault(listen: str) -> tuple[str, str] | None:
    """None for an address, a network, an interface or `host`; else what is wrong, and what to write."""
    if listen == "host" or _address(listen) is not None:
        return None
    if listen in ("localhost", "lo"):
        return "that is a name, not an address", "write 127.0.0.1"
    if "/" in listen:
        return _network_fault(listen)
    if is_interface(listen):
        return None
    return (
        "not an address",
        "write 127.0.0.1, host, an address, a network such as 10.20.0.0/16, or an interface such as eth0",
    )


def is_interface(listen: str) -> bool:
    """Whether it can only be the name of an interface. Those that begin with a digit are not taken."""
    return listen != "host" and _address(listen) is None and _INTERFACE.fullmatch(listen) is not None


def _network_fault(listen: str) -> tuple[str, str] | None:
    try:
        network = ipaddress.ip_network(listen, strict=False)
    except ValueError:
        return "no network", "write one such as 10.20.0.0/16"
    if network.is_loopback:
        return "that is every loopback address", f"write {'127.0.0.1' if network.version == 4 else '::1'}"
    try:
        ipaddress.ip_network(listen)
    except ValueError:
        return "an address with a network's length", f"the network is {network}"
    return None


def is_loopback(listen: str) -> bool:
    """Whether only the host itself can reach what listens there."""
    address = _address(listen)
    return address is not None and address.is_loopback


def meet(one: str, other: str) -> bool:
    """Whether one port can't be had on both. `host`, networks and interfaces meet themselves and every
    wildcard.
    """
    if one == other:
        return True
    first, second = _address(one), _address(other)
    if first is None or second is None:
        return any(address is not None and address.is_unspecified for address in (first, second))
    return first == second or _covers(first, second) or _covers(second, first)


def _covers(wide: _Address, narrow: _Address) -> bool:
    """`::` takes IPv4 as well, unless a program says otherwise; `0.0.0.0` takes IPv4 alone."""
    return wide.is_unspecified and (wide.version == 6 or narrow.version == 4)


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
