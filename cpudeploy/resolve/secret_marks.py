"""Has a secret changed? Told by salted scrypt marks beside a release, never by the value.

In: the manifest's secrets (resolved) and the marks that hosts' releases and holds have. Out: same, changed or
unknown a secret, and why one can't be had. A mark is safe to store and print; the value never leaves this
module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import SecretError
from ..secrets import Secrets, same
from ..types.base import to_data
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.names import container_name, secret_path
from ..types.release import release_number
from ..types.resolved import SecretState


def key_errors(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> dict[str, SecretError]:
    """`model@host` → why its API key can't be had, also of a new one: found before anything is fetched."""
    errors: dict[str, SecretError] = {}
    for placement in deployment.placements:
        if placement.api_key is not None and placement.host in facts:
            try:
                secrets.api_key(placement.api_key)
            except SecretError as error:
                errors[f"{placement.model}@{placement.host}"] = error
    return errors


def secret_states(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> dict[str, SecretState]:
    """State of the secrets of each instance that is there, by `host/deployment/model/instance/file`.

    A secret of a new instance has nothing to be compared with and no state, and neither has one that can't be
    had (`key_errors`).
    """
    states: dict[str, SecretState] = {}
    for placement, value in _keys(deployment, facts, secrets):
        for instance, release in _created(deployment.name, placement, facts[placement.host]):
            container = container_name(deployment.name, placement.model, instance)
            path = secret_path(deployment.name, container, "api_key")
            key = f"{placement.host}/{deployment.name}/{placement.model}/{instance}/api_key"
            states[key] = _state(value, release, path)
    return states


def held_states(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> dict[str, SecretState]:
    """The same against what is held on the hosts: whether a model failed with the very key it has now."""
    states: dict[str, SecretState] = {}
    for placement, value in _keys(deployment, facts, secrets):
        name = container_name(deployment.name, placement.model, 0)
        hold = facts[placement.host].held.get(deployment.name, {}).get(name)
        if hold is not None:
            path = secret_path(deployment.name, name, "api_key")
            key = f"{placement.host}/{deployment.name}/{placement.model}/0/api_key"
            states[key] = _state(value, to_data(hold), path)
    return states


def _keys(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> Iterator[tuple[Placement, str]]:
    """Placements on hosts with facts and the values of their API keys, where both are to be had."""
    for placement in deployment.placements:
        if placement.api_key is not None and placement.host in facts:
            try:
                value = secrets.api_key(placement.api_key).reveal()
            except SecretError:
                continue
            yield placement, value


def _created(deployment: str, placement: Placement, facts: Facts) -> Iterator[tuple[int, Any]]:
    """Instances of a placement that have a container, running or not: it is started again with the secret
    it was created with. Each with the document of the newest release a label names, of those that were
    proven where any was: what never passed its gate is not what serves again when it is undone."""
    newest: dict[int, tuple[bool, str]] = {}
    for container in facts.containers.values():
        its = container.mark
        if its and (its.deployment, its.model) == (deployment, placement.model):
            found = (container.restart_policy != "no", its.release)
            newest[its.instance] = max(
                found, newest.get(its.instance, found), key=lambda each: (each[0], release_number(each[1]))
            )
    releases = facts.releases.get(deployment, {})
    for instance, (_, release) in sorted(newest.items()):
        yield instance, releases.get(release) if isinstance(releases, dict) else None


def _state(value: str, release: Any, path: str) -> SecretState:
    """The document came from a host: anything may be missing from it."""
    marks = release.get("secret_marks") if isinstance(release, dict) else None
    known = marks.get(path) if isinstance(marks, dict) else None
    if not isinstance(known, str):
        return "unknown"
    return "same" if same(value, known) else "changed"
