"""Which containers serve a model, by the hosts' own facts."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConnectError, HostError, UsageError
from ..types.base import SecretRef
from ..types.facts import Publish
from .site import Site


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
    """Every instance of `model`, host by host. Raises UsageError for a model the manifest doesn't name,
    HostError when no reached host has it."""
    placements = [p for p in site.deployment.placements if p.model == model]
    if not placements:
        models = ", ".join(dict.fromkeys(p.model for p in site.deployment.placements)) or "none"
        raise UsageError(f"no model {model} here", do=f"choose from: {models}")
    found = []
    for placement in placements:
        facts = site.facts.get(placement.host)
        if facts is None:
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
    if not found:
        if site.unreachable:
            name, why = next(iter(site.unreachable.items()))
            raise ConnectError(why, where=name)
        raise HostError(f"{model} runs on none of its hosts", do="cpudeploy apply")
    return found
