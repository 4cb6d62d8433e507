"""Deployment + Facts + Resolved + Allocations → Plan.

Walks the playbooks' steps host by host and collects their changes in the order they must happen. Makes
no decision of its own about a resource; that is what `steps/` is for. Pure: same input, same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..steps.container import Rollout, container_changes, next_release, removal_changes
from ..steps.context import HostContext
from ..steps.docker_daemon import daemon_changes
from ..steps.docker_engine import engine_changes
from ..steps.image import image_changes
from ..steps.network import network_changes
from ..steps.remove_all import remove_all_changes
from ..steps.wanted import wanted_instance
from ..steps.weights import weights_changes
from ..types.allocation import Allocation
from ..types.deployment import Deployment, Host, Placement
from ..types.facts import Facts
from ..types.names import container_name
from ..types.plan import Change, HostPlan, Plan
from ..types.playbook import Playbook
from ..types.release import Instance
from ..types.resolved import Resolved
from .headline import headline
from .questions import questions

AllocationKey = tuple[str, str, int]


def make_plan(
    deployment: Deployment,
    playbooks: Mapping[str, Playbook],
    facts: Mapping[str, Facts],
    unreachable: Mapping[str, str],
    resolved: Resolved,
    allocations: Mapping[AllocationKey, Allocation],
    *,
    origin: str,
    unknown: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """The plan for every host that told its facts; `unreachable` and `unknown` (host → why) stand in it
    without changes.

    Raises HostError where a host can't be brought to what is wanted.
    """
    hosts = {}
    for name, host in deployment.hosts.items():
        if name in unreachable:
            hosts[name] = HostPlan(host=host, headline="", changes=(), unreachable=unreachable[name])
        elif name in unknown:
            hosts[name] = HostPlan(host=host, headline="", changes=(), unknown=unknown[name])
        elif name in facts:
            context = HostContext(deployment=deployment, host=host, facts=facts[name], resolved=resolved)
            mine = {key[0]: value for key, value in allocations.items() if key[1] == name}
            hosts[name] = _host_plan(context, playbooks, mine, origin)
    return Plan(
        deployment=deployment.name,
        base=deployment.base,
        origin=origin,
        registries=deployment.registries,
        hosts=hosts,
    )


def destroy_plan(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    unreachable: Mapping[str, str],
    *,
    origin: str,
    unknown: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """The plan that removes everything this deployment owns; engines and packages stay."""
    hosts = {}
    for name, host in deployment.hosts.items():
        if name in unreachable:
            hosts[name] = HostPlan(host=host, headline="", changes=(), unreachable=unreachable[name])
        elif name in unknown:
            hosts[name] = HostPlan(host=host, headline="", changes=(), unknown=unknown[name])
        elif name in facts:
            context = HostContext(deployment=deployment, host=host, facts=facts[name], resolved=Resolved())
            hosts[name] = _plan_of(context, remove_all_changes(context))
    return Plan(
        deployment=deployment.name,
        base=deployment.base,
        origin=origin,
        registries=deployment.registries,
        hosts=hosts,
        destroy=True,
    )


def _host_plan(
    context: HostContext,
    playbooks: Mapping[str, Playbook],
    allocations: Mapping[str, Allocation],
    origin: str,
) -> HostPlan:
    placements = [p for p in context.deployment.placements if p.host == context.host.name]
    changes: list[Change] = []
    if _wants(context.host, placements, context.deployment, playbooks, "docker_engine"):
        changes += engine_changes(context)
    if _wants(context.host, placements, context.deployment, playbooks, "docker_daemon"):
        changes += daemon_changes(context, _insecure(context, placements))
    if placements:
        changes += network_changes(context)
    for backend in dict.fromkeys(placement.backend for placement in placements):
        changes += image_changes(context, backend, context.resolved.images[backend])
    fetched: set[str] = set()
    for placement in placements:
        weights = context.resolved.weights[f"{placement.model}@{placement.host}"]
        if weights.tree not in fetched:
            changes += weights_changes(context, placement, weights)
            fetched.add(weights.tree)
    wanted = {p.model: _wanted(context, p, allocations[p.model], playbooks) for p in placements}
    changes += removal_changes(
        context, frozenset(container_name(context.deployment.name, model, 0) for model in wanted)
    )
    changes += _rollout(context, placements, wanted, playbooks, origin)
    return _plan_of(context, tuple(changes), tuple(allocations.values()), _warnings(context, allocations))


def _rollout(
    context: HostContext,
    placements: list[Placement],
    wanted: Mapping[str, Instance],
    playbooks: Mapping[str, Playbook],
    origin: str,
) -> list[Change]:
    instances = {
        container_name(context.deployment.name, instance.model, instance.instance): instance
        for instance in wanted.values()
    }
    rollout = Rollout(
        release=next_release(context, instances),
        origin=origin,
        weights_dir=context.host.weights_dir,
        instances=instances,
    )
    changes: list[Change] = []
    for placement in placements:
        image = context.resolved.images[placement.backend]
        playbook = playbooks[context.deployment.backends[placement.backend].playbook]
        weights = context.resolved.weights[f"{placement.model}@{placement.host}"]
        changes += container_changes(
            context, wanted[placement.model], image, rollout, playbook.diagnose, weights.size
        )
    return changes


def _wanted(
    context: HostContext, placement: Placement, allocation: Allocation, playbooks: Mapping[str, Playbook]
) -> Instance:
    backend = context.deployment.backends[placement.backend]
    return wanted_instance(
        context,
        placement,
        allocation,
        backend,
        playbooks[backend.playbook],
        context.resolved.images[placement.backend],
        context.resolved.weights[f"{placement.model}@{placement.host}"],
    )


def _wants(
    host: Host,
    placements: list[Placement],
    deployment: Deployment,
    playbooks: Mapping[str, Playbook],
    step: str,
) -> bool:
    """Does a playbook of this host, or one that its engines require, name the step?"""
    names = set(host.playbooks)
    for placement in placements:
        names.update(playbooks[deployment.backends[placement.backend].playbook].requires)
    return any(step in entry for name in names for entry in playbooks[name].steps)


def _insecure(context: HostContext, placements: list[Placement]) -> tuple[str, ...]:
    """Registries without TLS that images of this host may come from."""
    places = [
        place
        for backend in dict.fromkeys(placement.backend for placement in placements)
        for place in context.resolved.images[backend].places
    ]
    return tuple(dict.fromkeys(place.registry for place in places if place.insecure))


def _warnings(context: HostContext, allocations: Mapping[str, Allocation]) -> tuple[str, ...]:
    """What is allowed but wants a word. Free memory is one: it is a fact of the moment."""
    available = context.facts.memory.available
    new = [
        allocation
        for allocation in allocations.values()
        if container_name(context.deployment.name, allocation.model, 0) not in context.facts.containers
    ]
    wanted = sum(allocation.need.total for allocation in new)
    if isinstance(available, int) and wanted > available:
        return (
            f"{wanted / (1 << 30):.1f} GiB wanted by new models, {available / (1 << 30):.1f} GiB free now: "
            "the host may swap or kill",
        )
    return ()


def _plan_of(
    context: HostContext,
    changes: tuple[Change, ...],
    allocations: tuple[Allocation, ...] = (),
    warnings: tuple[str, ...] = (),
) -> HostPlan:
    asked = questions(context.deployment, context.host)
    return HostPlan(
        host=context.host,
        headline=headline(context.facts),
        changes=changes,
        allocations=allocations,
        warnings=warnings,
        questions=tuple((question.kind, question.key, question.arg) for question in asked),
    )
