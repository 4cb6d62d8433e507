"""How a deployment stands, from facts alone: one row an instance. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..sizing.running import running_instance
from ..steps.compare import drift
from ..types.deployment import Deployment, Placement
from ..types.endpoint import url_of
from ..types.facts import Container, Facts, Mark
from ..types.names import base_name, container_name
from ..types.status import State, StatusRow
from ..types.words import seconds_since
from .not_yet import deployment_not_yet, host_not_yet, model_not_yet

_LOADS_S = 300
_TOLD_TO_STOP = (0, 137, 143)


def status_rows(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
) -> tuple[StatusRow, ...]:
    """Rows in manifest order for hosts that told their facts, then of what else of ours runs there; then one
    for each other host, with why."""
    return (
        *(
            _row(deployment.name, p, facts[p.host], _what_to_do(deployment, p))
            for p in deployment.placements
            if p.host in facts
        ),
        *(row for name in facts for row in _unlisted(deployment, name, facts[name])),
        *(StatusRow(host=name, state="unreachable", detail=why) for name, why in (unreachable or {}).items()),
        *(StatusRow(host=name, state="unknown", detail=why) for name, why in (unknown or {}).items()),
    )


def _what_to_do(deployment: Deployment, placement: Placement) -> str:
    """How a model that is missing gets there, or why it won't yet."""
    not_yet = (
        deployment_not_yet(deployment)
        or host_not_yet(deployment.hosts[placement.host])
        or model_not_yet(placement)
    )
    return f"not yet: {not_yet}" if not_yet else "cpudeploy apply"


def _unlisted(deployment: Deployment, host: str, facts: Facts) -> Iterator[StatusRow]:
    """What holds cores, memory and a port, although nobody asks for it any more."""
    wanted = {container_name(deployment.name, p.model, 0) for p in deployment.placements if p.host == host}
    for name, container in sorted(facts.containers.items()):
        mark = container.mark
        if mark is None or mark.deployment != deployment.name or not container.running:
            continue
        if base_name(name) not in wanted:
            detail = "not in the manifest any more: cpudeploy plan tells what becomes of it"
            yield _found(host, mark, facts, container, "unlisted", detail)


def _row(deployment: str, placement: Placement, facts: Facts, to_do: str) -> StatusRow:
    if facts.engine.state == "stopped":
        return StatusRow(
            host=placement.host, model=placement.model, state="stopped", detail="the Docker engine is stopped"
        )
    container = facts.containers.get(container_name(deployment, placement.model, 0))
    if container is None or container.mark is None or container.mark.deployment != deployment:
        return StatusRow(host=placement.host, model=placement.model, state="missing", detail=to_do)
    state, detail = _state(deployment, placement, facts, container)
    return _found(placement.host, container.mark, facts, container, state, detail)


def _found(host: str, mark: Mark, facts: Facts, container: Container, state: State, detail: str) -> StatusRow:
    publish = container.publish[0] if container.publish else None
    return StatusRow(
        host=host,
        model=mark.model,
        instance=mark.instance,
        state=state,
        detail=detail,
        exit_code=None if container.running else container.exit_code,
        oom=container.oom_killed,
        since=container.started_at if container.running else "",
        age_s=seconds_since(container.started_at, facts.clock) if container.running else None,
        restarts=container.restarts,
        endpoint=url_of(publish.address, publish.port) if publish else "",
        release=mark.release,
        memory=container.memory,
        cpus=container.cpuset,
    )


def _state(deployment: str, placement: Placement, facts: Facts, container: Container) -> tuple[State, str]:
    if container.status == "restarting":
        told = f"exit code {container.exit_code}, after {container.restarts} restarts"
        return "restarting", f"{told}: cpudeploy logs {placement.model}"
    if container.status == "paused":
        return "paused", ""
    if not container.running:
        return "stopped", _ended(container)
    if container.restart_policy == "no":
        return "starting", "its gate was never passed"
    recorded = running_instance(deployment, placement.model, facts)
    age_s = seconds_since(container.started_at, facts.clock)
    loads_s = recorded.gate.deadline_s if recorded is not None else _LOADS_S
    if container.restarts and age_s is not None and age_s < loads_s:
        # An engine that dies a while after its start is `running` for most of its loop.
        again = f"it ended by itself and is loaded again, after {container.restarts} restarts"
        return "restarting", f"{again}: cpudeploy logs {placement.model}"
    by_hand = drift(container, recorded.container) if recorded is not None else ()
    if by_hand:
        return "drifted", ", ".join(diff.field for diff in by_hand) + " changed by hand"
    return "serving", ""


def _ended(container: Container) -> str:
    """Why one is down, where its exit code does not say. The engine brings back a proven one that ends by
    itself, whatever its exit code: what stands still was told to."""
    if container.restart_policy == "no":
        return "it ended by itself, its gate was never passed"
    if container.exit_code in _TOLD_TO_STOP and not container.oom_killed:
        return "stopped by somebody: the engine brings back what ends by itself"
    return ""
