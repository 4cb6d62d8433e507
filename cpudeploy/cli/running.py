"""Which containers serve a model, by the hosts' own facts, and asking each of them.

In: a site and a model's name. Out: its instances; asking one that fails never ends the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..errors import CpudeployError, HostError, worst
from ..types.base import SecretRef
from ..types.deployment import Placement
from ..types.facts import Facts, Publish
from ..types.names import base_name
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


@dataclass(frozen=True)
class Found:
    """A model's instances, and per host without one the reason."""

    instances: tuple[Running, ...]
    missing: dict[str, CpudeployError]


def instances_of(site: Site, model: str) -> Found:
    """Every instance of `model`, host by host, by the facts that its hosts told."""
    found: list[Running] = []
    missing = dict(site.troubles)
    for placement in site.deployment.placements:
        if placement.model == model and placement.host in site.facts:
            facts = site.facts[placement.host]
            here = list(_on_host(site.deployment.name, placement, facts))
            found += here
            if not here:
                missing[placement.host] = _not_there(model, facts)
    return Found(tuple(found), missing)


def ask_each(found: Found, ask: Callable[[Running], None]) -> int:
    """`ask` every instance; what goes wrong with one is told and keeps no other from being asked. Tells
    also which hosts have none to be asked; returns the exit code for all of it."""
    codes = [code_of(error) for error in found.missing.values()]
    for instance in found.instances:
        try:
            ask(instance)
        except CpudeployError as error:
            tell({instance.host: error})
            codes.append(code_of(error))
    tell(found.missing)
    return worst(codes)


def _on_host(deployment: str, placement: Placement, facts: Facts) -> Iterator[Running]:
    for name, container in facts.containers.items():
        mark = container.mark
        if mark is None or (mark.deployment, mark.model) != (deployment, placement.model):
            continue
        if name != base_name(name):
            continue
        yield Running(
            host=placement.host,
            model=placement.model,
            container=name,
            running=container.running,
            publish=container.publish[0] if container.publish else None,
            served_name=placement.served_name,
            api_key=placement.api_key,
        )


def _not_there(model: str, facts: Facts) -> HostError:
    engine = facts.engine
    why = "" if engine.state == "running" else f": the engine is {engine.state}"
    return HostError(f"{model} is not there{why}", do="cpudeploy apply")
