"""Has a secret changed? Told by salted scrypt marks beside a release, never by the value.

In: the manifest's secrets (resolved) and the marks that hosts' releases hold. Out: same, changed or
unknown a secret. A mark is safe to store and print; the value never leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..secrets import Secrets, same
from ..types.deployment import Deployment, Placement
from ..types.facts import Facts
from ..types.names import container_name, secret_path
from ..types.resolved import SecretState


def secret_states(
    deployment: Deployment, facts: Mapping[str, Facts], secrets: Secrets
) -> dict[str, SecretState]:
    """State of each running instance's secrets by `host/deployment/model/instance/file`.

    Only instances that run have a state: a secret of a new one has nothing to be compared with.
    """
    states: dict[str, SecretState] = {}
    for placement in deployment.placements:
        if placement.api_key is None or placement.host not in facts:
            continue
        for instance, release in _running(deployment.name, placement, facts[placement.host]):
            container = container_name(deployment.name, placement.model, instance)
            path = secret_path(deployment.name, container, "api_key")
            key = f"{placement.host}/{deployment.name}/{placement.model}/{instance}/api_key"
            states[key] = _state(secrets.get(placement.api_key).reveal(), release, path)
    return states


def _running(deployment: str, placement: Placement, facts: Facts) -> Iterator[tuple[int, Any]]:
    """Running instances of a placement, each with the document of the newest release a label names."""
    newest: dict[int, str] = {}
    for container in facts.containers.values():
        its = container.mark
        if its and container.running and (its.deployment, its.model) == (deployment, placement.model):
            newest[its.instance] = max(its.release, newest.get(its.instance, ""))
    releases = facts.releases.get(deployment, {})
    for instance, release in sorted(newest.items()):
        yield instance, releases.get(release) if isinstance(releases, dict) else None


def _state(value: str, release: Any, path: str) -> SecretState:
    """The document came from a host: anything may be missing from it."""
    marks = release.get("secret_marks") if isinstance(release, dict) else None
    known = marks.get(path) if isinstance(marks, dict) else None
    if not isinstance(known, str):
        return "unknown"
    return "same" if same(value, known) else "changed"
