"""Measuring what facts alone don't tell, on hosts that are reached. In: a site. Out: its facts, fuller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec

from ..errors import CpudeployError
from ..probe.bandwidth import measure_bandwidth
from .site import Site
from .troubles import note

_AT_ONCE = 32


def measure(site: Site) -> None:
    """Measure every host's memory bandwidth, all hosts at once. A host where that fails keeps the facts it
    told; why is said on stderr."""

    def one(host: str) -> int | CpudeployError:
        try:
            return measure_bandwidth(site.connections[host], site.facts[host])
        except CpudeployError as error:
            return error

    hosts = list(site.facts)
    with ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(hosts)))) as pool:
        for host, told in zip(hosts, pool.map(one, hosts), strict=True):
            if isinstance(told, CpudeployError):
                note(host, told.sentence)
                continue
            facts = site.facts[host]
            memory = msgspec.structs.replace(facts.memory, bandwidth=told)
            site.facts[host] = msgspec.structs.replace(facts, memory=memory)
