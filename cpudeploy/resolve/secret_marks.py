"""Has a secret changed? Told by salted scrypt marks beside a release, never by the value.

In: the manifest's secrets (resolved) and the marks that hosts' releases and holds have. Out: same, changed or
unknown a secret. A mark is safe to store and print; the value never leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..secrets import Secrets, same
from ..types.base import to_data
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.names import container_name, secret_path
from ..types.release import release_number
from ..types.resolved import SecretState


def secret_states(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> dict[str, SecretState]:
    """State of the secrets of each instance that is there, by `host/deployment/model/instance/file`.

    A secret of a new instance has nothing to be compared with and no state, but is resolved like the
    others: one that is missing is found before anything is fetched. Raises SecretError.
    """
    states: dict[str, SecretState] = {}
    for placement in deployment.placements:
        if placement.api_key is None or placement.host not in facts:
            continue
        value = secrets.api_key(placement.api_key).reveal()
        for instance, release in _created(deployment.name, placement, facts[placement.host]):
            container = container_name(deployment.name, placement.model, instance)
            path = secret_path(deployment.name, container, "api_key")
            key = f"{placement.host}/{deployment.name}/{placement.model}/{instance}/api_key"
            states[key] = _state(value, release, path)
    return states


def held_states(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> dict[str, SecretState]:
    """The same against what is held on the hosts: whether a model failed with the very key it has now.
    Raises SecretError."""
    states: dict[str, SecretState] = {}
    for placement in deployment.placements:
        if placement.api_key is None or placement.host not in facts:
            continue
        name = container_name(deployment.name, placement.model, 0)
        hold = facts[placement.host].held.get(deployment.name, {}).get(name)
        if hold is not None:
            value = secrets.api_key(placement.api_key).reveal()
            path = secret_path(deployment.name, name, "api_key")
            key = f"{placement.host}/{deployment.name}/{placement.model}/0/api_key"
            states[key] = _state(value, to_data(hold), path)
    return states


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
