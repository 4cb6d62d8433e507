"""Where models answer after an apply. Plan and Outcome in, base URLs out; only of what passed its gate."""

from __future__ import annotations

import ipaddress

from ..types.base import Struct
from ..types.endpoint import url_of
from ..types.operation import Record, Wait
from ..types.outcome import HostOutcome, Outcome
from ..types.plan import HostPlan, Plan
from .plan_changes import allocations_of


class Endpoint(Struct, frozen=True, kw_only=True):
    """A model's base URL for OpenAI clients, on one host."""

    host: str
    model: str
    instance: int
    url: str


def endpoints(outcome: Outcome, plan: Plan) -> list[Endpoint]:
    """Every instance the plan leaves on hosts where it was carried out, in the plan's order.

    An instance whose host did not finish is told only if its own change passed.
    """
    found: list[Endpoint] = []
    for name, host in plan.hosts.items():
        if name in outcome.hosts and not plan.destroy:
            found += _of_host(host, outcome.hosts[name])
    return found


def base_url(address: str, port: int, host_address: str) -> str:
    """`http://127.0.0.1:8100/v1`. Listening everywhere is told as the address the host is reached by."""
    try:
        everywhere = ipaddress.ip_address(address).is_unspecified
    except ValueError:
        everywhere = False
    return url_of(host_address if everywhere else address, port)


def _of_host(host: HostPlan, outcome: HostOutcome) -> list[Endpoint]:
    status = {change.change: change.status for change in outcome.changes}
    # A release names every instance of its host, also those no change touches: they count once all is done.
    whole_host = outcome.status in ("done", "unchanged")
    found: dict[str, Endpoint] = {}
    for change in host.changes:
        if status.get(change.id) not in ("done", "already"):
            continue
        for operation in change.operations:
            match operation:
                case Record():
                    for container, instance in operation.instances.items():
                        mine = change.subject in (instance.model, f"{instance.model}_{instance.instance}")
                        if (mine or whole_host) and instance.container.publish:
                            publish = instance.container.publish[0]
                            found[container] = _endpoint(
                                host, instance.model, instance.instance, publish.address, publish.port
                            )
                case Wait() if change.action == "gate":
                    allotted = allocations_of(change, host)
                    model, number = change.subject, 0
                    if len(allotted) == 1:
                        model, number = allotted[0].model, allotted[0].instance
                    found[operation.container] = _endpoint(
                        host, model, number, operation.address, operation.port
                    )
    return list(found.values())


def _endpoint(host: HostPlan, model: str, instance: int, address: str, port: int) -> Endpoint:
    url = base_url(address, port, host.host.ssh.address)
    return Endpoint(host=host.host.name, model=model, instance=instance, url=url)
