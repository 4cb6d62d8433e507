"""Addresses, routes and listening ports, from the tables of /proc/net, and from `ip` where it is there. Pure.

A line that can't be read tells nothing; the others do all the same.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress

from ..types.base import Unknown
from ..types.facts import Listening
from .records import Records

_BIG_ENDIAN = {"s390x", "s390", "ppc64", "ppc", "mips", "mips64", "sparc64"}
_LISTEN = "0A"


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def read_addresses(records: Records) -> tuple[str, ...]:
    """Every address of the host but loopback and link-local ones."""
    return _told({*_local_v4(records), *_interfaces_v6(records)})


def read_interfaces(records: Records) -> dict[str, tuple[str, ...]]:
    """Interface → its addresses, without loopback and link-local ones.

    The kernel's tables don't say which interface an IPv4 address is of, `ip` does. Without it, it is the one
    that leads to the address's own network; where that is none or several, the address is left out.
    """
    found: dict[str, set[_Address]] = {}
    networks = [
        (network, interface)
        for network, interface, gateway in _routes_v4(records)
        if network.prefixlen and not gateway
    ]
    told_by_ip = _interfaces_v4(records)
    for v4 in _local_v4(records):
        if v4 in told_by_ip:
            found.setdefault(told_by_ip[v4], set()).add(v4)
            continue
        around = [(network.prefixlen, interface) for network, interface in networks if v4 in network]
        nearest = {interface for length, interface in around if length == max(around)[0]}
        if len(nearest) == 1:
            found.setdefault(nearest.pop(), set()).add(v4)
    for v6, interface in _interfaces_v6(records).items():
        found.setdefault(interface, set()).add(v6)
    told = {interface: _told(addresses) for interface, addresses in sorted(found.items())}
    return {interface: addresses for interface, addresses in told.items() if addresses}


def read_routes(records: Records) -> tuple[str, ...]:
    """Networks with a route, without the default and link-local ones."""
    found: set[str] = set()
    for network, _, _ in _routes_v4(records):
        if network.prefixlen and not network.is_link_local:
            found.add(str(network))
    for line in records.lines("net/ipv6_route"):
        words = line.split()
        if len(words) != 10 or words[9] == "lo":
            continue
        with suppress(ValueError):
            net6 = ipaddress.IPv6Network((int(words[0], 16), int(words[1], 16)), strict=False)
            if net6.prefixlen and not net6.is_link_local and not net6.is_multicast:
                found.add(str(net6))
    return tuple(sorted(found))


def read_ports(records: Records) -> tuple[Listening, ...] | Unknown:
    """Listening TCP sockets of the host's own network."""
    if records.get("net/tcp") is None:
        return Unknown(unknown="no /proc/net/tcp")
    found: set[tuple[str, int]] = set()
    for table in ("net/tcp", "net/tcp6"):
        for line in records.lines(table)[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == _LISTEN:
                address, _, port = words[1].partition(":")
                with suppress(ValueError):
                    found.add((str(ipaddress.ip_address(_bytes(address, records))), int(port, 16)))
    return tuple(Listening(address=address, port=port) for address, port in sorted(found))


def _local_v4(records: Records) -> set[ipaddress.IPv4Address]:
    found = set()
    last = ""
    for line in records.lines("net/fib_trie"):
        words = line.split()
        if words[:1] == ["|--"] and len(words) == 2:
            last = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"]:
            with suppress(ValueError):
                found.add(ipaddress.IPv4Address(last))
    return found


def _routes_v4(records: Records) -> list[tuple[ipaddress.IPv4Network, str, bool]]:
    """(network, interface, is there a gateway?) of every route."""
    found = []
    for line in records.lines("net/route")[1:]:
        words = line.split()
        if len(words) < 8:
            continue
        with suppress(ValueError):
            bits = int.from_bytes(_bytes(words[7], records)).bit_count()
            network = ipaddress.IPv4Network((_bytes(words[1], records), bits), strict=False)
            found.append((network, words[0], words[2].strip("0") != ""))
    return found


def _interfaces_v4(records: Records) -> dict[ipaddress.IPv4Address, str]:
    """Address → its interface: `2: eth0    inet 10.20.1.11/32 scope global eth0` of `ip -o -4 addr show`."""
    found = {}
    for line in records.lines("ip-addresses"):
        words = line.split()
        if len(words) > 3 and words[2] == "inet":
            with suppress(ValueError):
                found[ipaddress.IPv4Address(words[3].partition("/")[0])] = words[1].partition("@")[0]
    return found


def _interfaces_v6(records: Records) -> dict[ipaddress.IPv6Address, str]:
    """Address → its interface."""
    found = {}
    for line in records.lines("net/if_inet6"):
        words = line.split()
        if len(words) == 6 and len(words[0]) == 32:
            with suppress(ValueError):
                found[ipaddress.IPv6Address(int(words[0], 16))] = words[5]
    return found


def _told(addresses: set[_Address]) -> tuple[str, ...]:
    """In order, without loopback and link-local ones."""
    kept = [address for address in addresses if not address.is_loopback and not address.is_link_local]
    return tuple(str(each) for each in sorted(kept, key=lambda each: (each.version, int(each))))


def _bytes(digits: str, records: Records) -> bytes:
    """An address as /proc prints it: words of 32 bits in the machine's own order."""
    raw = bytes.fromhex(digits)
    if records.text("machine").strip() in _BIG_ENDIAN:
        return raw
    return b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
