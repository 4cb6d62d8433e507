"""Which containers serve a model, by the hosts' own facts, and asking each of them.

In: a site and a model's name. Out: its instances; asking one that fails never ends the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import CpudeployError, HostError, worst
from ..types.base import SecretRef
from ..types.facts import Publish
from .site import Site
from .troubles import code_of, tell


@dataclass(frozen=True)
class Running:
    """One instance as found on a host. `api_key`: the manifest's reference, None without a key."""

    host: str
    model: str
    container: str
    running: bool
    publish: Publish | None
    served_name: str
    api_key: SecretRef | None


def instances_of(site: Site, model: str) -> list[Running]:
    """Every instance of `model`, host by host, on the hosts that told their facts. Raises HostError when
    all did and none has it."""
    found = []
    for placement in site.deployment.placements:
        facts = site.facts.get(placement.host)
        if facts is None or placement.model != model:
            continue
        for name, container in facts.containers.items():
            mark = container.mark
            if mark is None or mark.deployment != site.deployment.name or mark.model != model:
                continue
            if name.endswith("_old"):
                continue
            found.append(
                Running(
                    host=placement.host,
                    model=model,
                    container=name,
                    running=container.running,
                    publish=container.publish[0] if container.publish else None,
                    served_name=placement.served_name,
                    api_key=placement.api_key,
                )
            )
    if not found and not site.troubles:
        raise HostError(f"{model} runs on none of its hosts", do="cpudeploy apply")
    return found


def ask_each(site: Site, instances: Sequence[Running], ask: Callable[[Running], None]) -> int:
    """`ask` every instance; what goes wrong with one is told and keeps no other from being asked. Tells
    also which hosts could not be asked at all; returns the exit code for all of it."""
    codes = [site.code]
    for instance in instances:
        try:
            ask(instance)
        except CpudeployError as error:
            tell({instance.host: error})
            codes.append(code_of(error))
    tell(site.troubles)
    return worst(codes)
