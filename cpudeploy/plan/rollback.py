"""Back to what an earlier release says: a plan from what hosts hold, without registry, Hub or sizing. Pure.

In: facts with their releases, the deployment for its hosts. Out: the same changes as an update, with the same
gates and ways back. What is not on a host any more can't be gone back to, and that is said before anything
happens.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..errors import HostError, SecretError
from ..steps.addresses import refuse_taken_ports
from ..steps.blocks import Rollout
from ..steps.compare import differences
from ..steps.container import next_release, proven_already, removal_changes
from ..steps.context import HostContext
from ..steps.network import network_changes
from ..types.base import SecretRef
from ..types.deployment import Deployment
from ..types.facts import Facts
from ..types.names import base_name
from ..types.plan import Change, HostPlan, Plan
from ..types.playbook import Playbook
from ..types.release import Instance, Release, release_number
from ..types.resolved import Resolved, SecretState
from .hosts import plan_of_host, plan_of_hosts
from .left_alone import applied_elsewhere, as_strangers, told
from .order import in_order
from .put_back import changes_to
from .releases import (
    all_proven,
    current_release,
    missing_of,
    named,
    passed_over,
    releases_of,
    serving_instances,
)


def rollback_plan(
    deployment: Deployment,
    playbooks: Mapping[str, Playbook],
    facts: Mapping[str, Facts],
    *,
    release: str = "",
    origin: str,
    secrets: Mapping[str, SecretState] | None = None,
    keyless: Mapping[str, str] | None = None,
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
    adopt: bool = False,
) -> Plan:
    """Every host back to `release` (an id, or its number), or to the newest up to the one that serves in
    which all was proven and something is otherwise than now. A host that can't go there stands in the plan
    with why.

    `secrets`: the state of those of today, as in `Resolved`; `keyless`: `model@host` → why its key of today
    can't be had; `adopt` as for any plan.
    """

    def of(context: HostContext) -> HostPlan:
        return _host(context, playbooks, release, origin, keyless or {}, adopt=adopt)

    known = Resolved(secrets=dict(secrets or {}))
    return plan_of_hosts(deployment, facts, known, unreachable, unknown, origin, of)


def target(deployment: str, facts: Facts, asked: str) -> Release:
    """The release to go back to. Raises HostError where there is none."""
    releases = releases_of(deployment, facts)
    if asked:
        id = named(asked, releases)
        found = releases[id] if id is not None else None
        if found is None:
            damaged = "its record can't be read" if id is not None else "it is not on this host"
            there = ", ".join(each for each, known in releases.items() if known) or "none"
            raise HostError(
                f"there is no going back to release {asked}: {damaged}", do=f"choose from: {there}"
            )
        return found
    current = current_release(deployment, facts)
    serving = serving_instances(deployment, facts)
    for id in reversed([id for id in releases if release_number(id) <= release_number(current)]):
        release = releases[id]
        if release is None or not release.instances or not all_proven(release):
            continue
        beside = passed_over(deployment, facts, release)
        if not _same(release, {name: each for name, each in serving.items() if name not in beside}):
            return release
    raise HostError(
        "nothing else is known to have served whole here",
        do="see `cpudeploy history`, and name one",
    )


def _host(
    context: HostContext,
    playbooks: Mapping[str, Playbook],
    asked: str,
    origin: str,
    keyless: Mapping[str, str],
    *,
    adopt: bool,
) -> HostPlan:
    facts, deployment = context.facts, context.deployment.name
    if facts.engine.state != "running":
        raise HostError(f"the Docker engine is {facts.engine.state}", do="start it, then run this again")
    goal = target(deployment, facts, asked)
    wanted = {name: _with_key_of_today(context, each) for name, each in goal.instances.items()}
    _refuse_missing(goal, facts)
    _refuse_keyless(context, wanted, keyless)
    elsewhere = {} if adopt else applied_elsewhere(context, wanted, origin)
    beside = passed_over(deployment, facts, goal) - elsewhere.keys()
    refuse_taken_ports(as_strangers(context, beside | elsewhere.keys()), wanted)
    staying = frozenset(wanted) | {base_name(name) for name in beside | elsewhere.keys()}
    rollout = Rollout(
        release=next_release(context, wanted),
        origin=origin,
        weights_dir=context.host.weights_dir,
        instances=wanted,
        proven=proven_already(context, wanted),
    )
    changes: list[Change] = []
    if wanted:
        changes += network_changes(context)
    going = [
        msgspec.structs.replace(change, why=f"not in release {goal.id}")
        for change in removal_changes(context, staying, origin)
    ]
    coming = [
        change
        for instance in wanted.values()
        for change in changes_to(context, instance, rollout, playbooks, context.resolved.secrets)
    ]
    changes += in_order(context, coming, going, wanted)
    touched = {change.subject for change in changes if change.step == "container"}
    retained = tuple(each.model for each in wanted.values() if each.model not in touched)
    warnings = [f"this goes back to release {goal.id} of {goal.created}"]
    warnings += [
        f"{name} stays: it was there before that release, which does not name it" for name in sorted(beside)
    ]
    plan = plan_of_host(context, tuple(changes), warnings=tuple(warnings))
    return msgspec.structs.replace(plan, retained=retained, unplanned=told(context, elsewhere))


def _same(release: Release, serving: Mapping[str, Instance]) -> bool:
    """Whether all of the release serves, and nothing else: then going there would change nothing."""
    return release.instances.keys() == serving.keys() and not any(
        differences(serving[name], instance, False) for name, instance in release.instances.items()
    )


def _refuse_missing(goal: Release, facts: Facts) -> None:
    """Raises HostError naming all that the host has not any more."""
    missing = [
        f"{instance.model}: {what}"
        for instance in goal.instances.values()
        for what in missing_of(instance, facts)
    ]
    if missing:
        raise HostError(
            f"release {goal.id} is not whole here any more, this was pruned: {'; '.join(missing)}",
            do="apply from the manifest of that time instead",
        )


def _refuse_keyless(context: HostContext, wanted: Mapping[str, Instance], keyless: Mapping[str, str]) -> None:
    """Raises SecretError for a model whose key of today can't be had: clients use that one."""
    for instance in wanted.values():
        why = keyless.get(f"{instance.model}@{context.host.name}")
        if why and instance.api_key is not None:
            raise SecretError(f"the API key of {instance.model} can't be had: {why}")


def _with_key_of_today(context: HostContext, instance: Instance) -> Instance:
    """The instance with its API key from where the manifest has it now: clients use that one."""
    of = (instance.model, context.host.name)
    placed = (each for each in context.deployment.placements if (each.model, each.host) == of)
    key: SecretRef | None = next((each.api_key for each in placed), None)
    if key is None or instance.api_key is None:
        return instance
    files = tuple(msgspec.structs.replace(file, secret=key) for file in instance.container.secrets)
    container = msgspec.structs.replace(instance.container, secrets=files)
    return msgspec.structs.replace(instance, api_key=key, container=container)
