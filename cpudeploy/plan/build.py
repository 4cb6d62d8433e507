"""Deployment + Facts + Resolved → Plan, with each host's allocations.

Collects the steps' changes host by host in the order they must happen: the engine's as its playbooks ask,
then networks, images, weights, containers. Makes no decision of its own about a resource; that is what
`steps/` is for. Pure: same input, same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from ..errors import CpudeployError, HostError
from ..sizing import allocate
from ..steps.addresses import refuse_taken_ports
from ..steps.blocks import Rollout
from ..steps.container import container_changes, next_release, proven_already, removal_changes
from ..steps.context import HostContext
from ..steps.cpu_flags import refuse_missing_flags
from ..steps.curl import curl_changes
from ..steps.docker_daemon import daemon_changes
from ..steps.docker_engine import engine_changes
from ..steps.found import is_ours
from ..steps.health import usual_start_s
from ..steps.image import image_changes
from ..steps.network import network_changes
from ..steps.platform import refuse_wrong_platform
from ..steps.volume import volume_removals
from ..steps.wanted import wanted_instance
from ..steps.weights import brought_by, bytes_to_load, weights_changes
from ..types.allocation import Allocation
from ..types.deployment import Deployment, Host, Placement
from ..types.facts import Facts
from ..types.names import base_name, container_name
from ..types.plan import Change, HostPlan, Plan
from ..types.playbook import Playbook
from ..types.release import Instance
from ..types.resolved import Resolved
from .destroy import removal_of_all
from .disk import refuse_full_disks
from .holds import Held, held_back
from .hosts import not_planned, plan_of_host, plan_of_hosts
from .left_alone import applied_elsewhere, as_strangers, containers_of, models_elsewhere, told
from .not_yet import deployment_not_yet, host_not_yet, model_not_yet, not_yet_warnings
from .order import in_order, last_removals
from .put_back import changes_to
from .warnings import sizing_warnings

_ENGINE_FIRST = (
    "only the engine's start is planned; what it holds can be seen once it runs, and apply goes on then"
)


@dataclass(frozen=True)
class _Asked:
    """What a plan is made with beside what one host tells. `fleet`: every host's facts. `away`: `model@host`
    → why it can't be planned there: where it served until now it serves on."""

    playbooks: Mapping[str, Playbook]
    origin: str
    recorded: str
    fleet: Mapping[str, Facts]
    away: Mapping[str, str]
    repack: bool
    retry: bool
    adopt: bool


def make_plan(
    deployment: Deployment,
    playbooks: Mapping[str, Playbook],
    facts: Mapping[str, Facts],
    resolved: Resolved,
    *,
    origin: str,
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
    unplanned: Mapping[str, str] | None = None,
    recorded: str = "",
    repack: bool = False,
    retry: bool = False,
    adopt: bool = False,
) -> Plan:
    """The plan for every host that told its facts. A host that could not be reached (`unreachable`), whose
    facts could not be read (`unknown`), or that can't be brought to what is wanted stands in it with the
    reason and without changes: one host's trouble is not the others'. So do models: those that this version
    can't carry out, and those of which too little is known or something can't be had (`unplanned`:
    `model@host` → why). What runs of them is left alone; what may be their old name is not removed.

    `recorded`: the folder that facts and `resolved` were read from, where nobody was asked now.
    `repack`: cores and memory are dealt out anew, also to models that run.
    `retry`: what failed its gate before is tried again. `adopt`: what another origin applied is ours now.
    """
    asked = _Asked(
        playbooks, origin, recorded, facts, unplanned or {}, repack=repack, retry=retry, adopt=adopt
    )

    def of(context: HostContext) -> HostPlan:
        if context.host.retired:
            moving = _moving(context, asked.away)
            if moving:
                return msgspec.structs.replace(plan_of_host(context, ()), unplanned=moving)
            return removal_of_all(context, "retired", origin, adopt=adopt)
        postponed = deployment_not_yet(deployment) or host_not_yet(context.host)
        if postponed:
            return msgspec.structs.replace(plan_of_host(context, ()), postponed=postponed)
        return _with_left_out(context, asked, unplanned or {})

    plan = plan_of_hosts(deployment, facts, resolved, unreachable, unknown, origin, of)
    lost = _on_lost_hosts(plan, deployment)
    if lost:  # only now known
        asked = replace(asked, away={**asked.away, **lost})
        plan = plan_of_hosts(deployment, facts, resolved, unreachable, unknown, origin, of)
    warnings = (*plan.warnings, *not_yet_warnings(deployment))
    if recorded and any(placement.api_key is not None for placement in deployment.placements):
        warnings = (*warnings, "no secret was read: whether an API key changed is not known")
    hosts = {name: _postponed(deployment, host) for name, host in plan.hosts.items()}
    return msgspec.structs.replace(plan, hosts=hosts, warnings=warnings, recorded=recorded)


def _postponed(deployment: Deployment, plan: HostPlan) -> HostPlan:
    """A host for which nothing could be planned even with the facts it lacks: that is the reason to give."""
    why = deployment_not_yet(deployment) or host_not_yet(plan.host)
    if not plan.unknown or not why or plan.host.retired:
        return plan
    return msgspec.structs.replace(plan, unknown="", postponed=why)


def _with_left_out(context: HostContext, asked: _Asked, unplanned: Mapping[str, str]) -> HostPlan:
    """The plan of a host's models that can be planned; the others are named and left alone, and so is what
    another manifest applied."""
    deployment = context.deployment
    mine = [placement for placement in deployment.placements if placement.host == context.host.name]
    not_yet = {placement.model: why for placement in mine if (why := model_not_yet(placement))}
    missing = {
        placement.model: unplanned[key]
        for placement in mine
        if placement.model not in not_yet and (key := f"{placement.model}@{placement.host}") in unplanned
    }
    left = not_yet.keys() | missing.keys()
    named = {container_name(deployment.name, placement.model, 0) for placement in mine}
    elsewhere = {} if asked.adopt else applied_elsewhere(context, named, asked.origin)
    lacking = [each for each in mine if each.model in missing and not _served(context, each.model)]
    waiting = _moving(context, asked.away)
    if lacking:
        # Each may be the new name of what is not named any more.
        waiting |= _waiting(context, named | elsewhere.keys(), lacking)
    keeping = {p.model for p in mine} | waiting.keys()
    if not asked.adopt:
        keeping |= models_elsewhere(context, asked.origin)
    placements = tuple(p for p in deployment.placements if p not in mine or p.model not in left)
    narrowed = replace(context, deployment=msgspec.structs.replace(deployment, placements=placements))
    try:
        left_alone = containers_of(context, left | waiting.keys()) | elsewhere.keys()
        plan = _host_plan(narrowed, asked, left_alone, lacking, keeping)
    except CpudeployError as error:
        plan = not_planned(context, error)
    unplanned = {**plan.unplanned, **told(context, elsewhere), **waiting, **missing}
    return msgspec.structs.replace(plan, not_yet=not_yet, unplanned=unplanned)


def _on_lost_hosts(plan: Plan, deployment: Deployment) -> dict[str, str]:
    """`model@host` → why nothing is done on that host."""
    lost = {name: host.unknown or host.unreachable for name, host in plan.hosts.items()}
    return {
        f"{placement.model}@{placement.host}": lost[placement.host]
        for placement in deployment.placements
        if lost.get(placement.host)
    }


def _moving(context: HostContext, away: Mapping[str, str]) -> dict[str, str]:
    """Models of ours here that are wanted elsewhere instead, and can't be had there yet; why they stay."""
    deployment, here = context.deployment, context.host.name
    mine = {placement.model for placement in deployment.placements if placement.host == here}
    found = {}
    for key in away:
        model, _, host = key.partition("@")
        if model not in mine and containers_of(context, (model,)):
            found[model] = f"it is not wanted here any more and stays until it can be planned on {host}"
    return found


def _waiting(context: HostContext, staying: Collection[str], lacking: Sequence[Placement]) -> dict[str, str]:
    """Models of ours here that are not wanted any more, with what they wait for. `staying`: containers."""
    why = f"it is not wanted any more and stays until {', '.join(each.model for each in lacking)} serves"
    return {
        container.mark.model: why
        for name, container in sorted(context.facts.containers.items())
        if is_ours(context, container) and container.mark is not None and base_name(name) not in staying
    }


def _served(context: HostContext, model: str) -> bool:
    """Whether something of the model has passed its gate here."""
    mine = (context.facts.containers[name] for name in containers_of(context, (model,)))
    return any(container.restart_policy != "no" for container in mine)


def _unknown_engine(context: HostContext, recorded: str) -> tuple[str, ...]:
    """A warning where nobody knows whether there is an engine. Raises HostError where somebody was asked."""
    engine = context.facts.engine
    if engine.state != "unknown":
        return ()
    why = f" ({engine.detail})" if engine.detail else ""
    if not recorded:
        raise HostError(
            f"whether there is a container engine can't be told{why}",
            where=context.host.name,
            do="see that the engine answers there, or say engine: {use: existing}",
        )
    return (f"the engine is unknown{why}: planned as if Docker ran there, set up for us and empty",)


def _host_plan(
    context: HostContext,
    asked: _Asked,
    left_alone: frozenset[str],
    lacking: list[Placement],
    keeping: Collection[str],
) -> HostPlan:
    """The plan of all that `context` names. `left_alone`: containers that nothing happens to. `lacking`: what
    is wanted beside, and can't be planned, and has never served: it may be a new name for what is removed.
    `keeping`: models whose volumes stay."""
    playbooks = asked.playbooks
    if context.facts.root == "none":
        raise HostError(
            "there is no root on this host: the login is not root and sudo is not used",
            do="log in as root, or allow sudo for this user",
        )
    placements = [each for each in context.deployment.placements if each.host == context.host.name]
    blind = _unknown_engine(context, asked.recorded)
    # What the machine itself can't run is no reason to install or start an engine on it.
    engines = [context.deployment.backends[name] for name in dict.fromkeys(p.backend for p in placements)]
    for engine in engines:
        refuse_wrong_platform(context, context.resolved.images[engine.name])
    flags = dict.fromkeys(
        warning
        for backend in engines
        for warning in refuse_missing_flags(context, backend, playbooks[backend.playbook])
    )
    changes: list[Change] = []
    if _wants(context.host, placements, context.deployment, playbooks, "docker_engine"):
        changes += engine_changes(context)
        if context.facts.engine.state == "stopped":
            begun = plan_of_host(context, tuple(changes), warnings=(_ENGINE_FIRST,))
            return msgspec.structs.replace(begun, partial=True)
    around = as_strangers(context, left_alone)
    allocations = allocate(
        context.deployment,
        context.host.name,
        around.facts,
        context.resolved,
        playbooks,
        repack=asked.repack,
        awaited=[each for each in lacking if not containers_of(context, (each.model,))],
        fleet=asked.fleet,
    )
    wanted = {p.model: _wanted(context, p, allocations[p.model], playbooks) for p in placements}
    named = {container_name(context.deployment.name, model, 0): each for model, each in wanted.items()}
    held = Held() if asked.retry else held_back(context, named)
    held.lacking.extend(each.model for each in lacking)
    tried = [placement for placement in placements if placement.model not in held.models]
    if not blind and _wants(context.host, placements, context.deployment, playbooks, "curl"):
        changes += curl_changes(context)
    if not blind and _wants(context.host, placements, context.deployment, playbooks, "docker_daemon"):
        changes += daemon_changes(context, _insecure(context, placements))
    if placements:
        changes += network_changes(context)
    for backend in dict.fromkeys(placement.backend for placement in tried):
        changes += image_changes(context, backend, context.resolved.images[backend])
    fetched: set[str] = set()
    for placement in tried:
        weights = context.resolved.weights[f"{placement.model}@{placement.host}"]
        if (weights.tree or weights.source) not in fetched:
            changes += weights_changes(context, placement, weights, brought_by(changes))
            fetched.add(weights.tree or weights.source)
    refuse_full_disks(context.facts, changes)
    refuse_taken_ports(around, named | held.instead)
    staying = named.keys() | {base_name(name) for name in left_alone}
    going = removal_changes(context, frozenset(staying), asked.origin)
    coming = _rollout(context, tried, named, held, asked)
    ordered = in_order(context, coming, going, named | held.instead)
    last = last_removals(ordered) if held.lacking else ()
    changes += ordered[: len(ordered) - len(last)]
    if not held.lacking:
        changes += volume_removals(context, keeping, "its model is not in the manifest any more")
    shown = {model: each for model, each in allocations.items() if model not in held.models}
    warnings = (*blind, *flags, *sizing_warnings(context, shown, changes))
    touched = {change.subject for change in changes if change.step == "container"}
    retained = tuple(placement.model for placement in tried if placement.model not in touched)
    plan = plan_of_host(context, tuple(changes), tuple(shown.values()), warnings)
    return msgspec.structs.replace(plan, retained=retained, held=held.models, unplanned=held.waiting(last))


def _rollout(
    context: HostContext, tried: list[Placement], named: Mapping[str, Instance], held: Held, asked: _Asked
) -> list[Change]:
    """What becomes of the containers: those `tried` are as wanted afterwards, those held as they were."""
    wanted = {name: each for name, each in named.items() if each.model not in held.models}
    after = wanted | held.instead
    recorded = replace(context, resolved=Resolved())  # the key it has is not compared with today's
    rollout = Rollout(
        release=next_release(context, after),
        origin=asked.origin,
        weights_dir=context.host.weights_dir,
        instances=after,
        proven=(*proven_already(context, wanted), *proven_already(recorded, held.instead)),
    )
    changes: list[Change] = []
    for placement in tried:
        image = context.resolved.images[placement.backend]
        playbook = asked.playbooks[context.deployment.backends[placement.backend].playbook]
        weights = context.resolved.weights[f"{placement.model}@{placement.host}"]
        changes += container_changes(
            context,
            named[container_name(context.deployment.name, placement.model, 0)],
            image,
            rollout,
            playbook.diagnose,
            usual_start_s(playbook, bytes_to_load(context, placement, weights)),
        )
    for instance in held.instead.values():
        changes += changes_to(context, instance, rollout, asked.playbooks, {})
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
