"""Whether facts from a file can be those of a machine: what the types alone can't tell. Pure.

In: facts as somebody may have edited them. Out: nothing, or a Contradiction that names the field.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

from ..types.base import Unknown
from ..types.cpulist import parse_cpulist
from ..types.facts import Core, Facts


class Contradiction(ValueError):
    """Facts that no machine has; one clause that names the field."""


def check_facts(facts: Facts) -> None:
    """Raises Contradiction for addresses and lists of CPUs that are none, and for a CPU of two cores."""
    addresses = [*facts.addresses, *(each for own in facts.interfaces.values() for each in own)]
    _each(addresses, ipaddress.ip_address, "addresses")
    subnets = [subnet for network in facts.networks.values() for subnet in network.subnets]
    _each([*facts.routes, *subnets], _network, "routes or subnets")
    for name, container in facts.containers.items():
        _each((container.cpuset, container.cpuset_mems), parse_cpulist, f"the CPUs of container {name}")
    if not isinstance(facts.cpu.cores, Unknown):
        _apart(facts.cpu.cores)


def _each(texts: Iterable[str], read: Callable[[str], object], what: str) -> None:
    for text in texts:
        try:
            read(text)
        except ValueError:
            raise Contradiction(f"`{text[:80]}` does not belong among {what}") from None


def _network(text: str) -> object:
    return ipaddress.ip_network(text, strict=False)


def _apart(cores: tuple[Core, ...]) -> None:
    if not cores:
        raise Contradiction("`cpu.cores` names none")
    seen: set[int] = set()
    for core in cores:
        if not core.cpus:
            raise Contradiction("a core of `cpu.cores` has no CPU")
        for cpu in core.cpus:
            if cpu in seen:
                raise Contradiction(f"CPU {cpu} is in `cpu.cores` twice")
            seen.add(cpu)
