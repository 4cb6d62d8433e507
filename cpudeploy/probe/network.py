"""Addresses, routes and listening ports, from the tables of /proc/net. Pure."""

from __future__ import annotations

import ipaddress

from ..types.base import Unknown
from ..types.facts import Listening
from .records import Records

_BIG_ENDIAN = {"s390x", "s390", "ppc64", "ppc", "mips", "mips64", "sparc64"}
_LISTEN = "0A"


def read_addresses(records: Records) -> tuple[str, ...]:
    """Every address of the host but loopback and link-local ones."""
    found: set[ipaddress.IPv4Address | ipaddress.IPv6Address] = set()
    last = ""
    for line in records.lines("net/fib_trie"):
        words = line.split()
        if words[:1] == ["|--"] and len(words) == 2:
            last = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"] and last:
            found.add(ipaddress.ip_address(last))
    for line in records.lines("net/if_inet6"):
        digits = line.split(" ", 1)[0]
        if len(digits) == 32:
            found.add(ipaddress.IPv6Address(int(digits, 16)))
    kept = [address for address in found if not address.is_loopback and not address.is_link_local]
    return tuple(
        str(address) for address in sorted(kept, key=lambda address: (address.version, int(address)))
    )


def read_routes(records: Records) -> tuple[str, ...]:
    """Networks with a route, without the default and link-local ones."""
    found: set[str] = set()
    for line in records.lines("net/route")[1:]:
        words = line.split()
        if len(words) >= 8:
            bits = int.from_bytes(_bytes(words[7], records)).bit_count()
            network = ipaddress.IPv4Network((_bytes(words[1], records), bits), strict=False)
            if network.prefixlen and not network.is_link_local:
                found.add(str(network))
    for line in records.lines("net/ipv6_route"):
        words = line.split()
        if len(words) == 10 and words[9] != "lo":
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
                found.add((str(ipaddress.ip_address(_bytes(address, records))), int(port, 16)))
    return tuple(Listening(address=address, port=port) for address, port in sorted(found))


def _bytes(digits: str, records: Records) -> bytes:
    """An address as /proc prints it: words of 32 bits in the machine's own order."""
    raw = bytes.fromhex(digits)
    if records.text("machine").strip() in _BIG_ENDIAN:
        return raw
    return b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
