"""What was applied to each host, from its facts alone, newest first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..steps.compare import differences
from ..types.deployment import Deployment
from ..types.facts import Container, Facts
from ..types.history import Became, HistoryInstance, HistoryRelease, HostHistory
from ..types.names import old_name
from ..types.release import Release, document_schema
from ..types.words import seconds_since
from .releases import current_release, missing_of, passed_over, releases_of


def history(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    unreachable: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
) -> tuple[HostHistory, ...]:
    """Every host of the deployment, in manifest order."""
    found = []
    for name in deployment.hosts:
        if name in facts:
            releases = tuple(_releases(deployment.name, name, facts[name]))
            found.append(HostHistory(host=name, releases=releases[::-1]))
        elif name in (unreachable or {}):
            found.append(HostHistory(host=name, unreachable=(unreachable or {})[name]))
        elif name in (unknown or {}):
            found.append(HostHistory(host=name, unknown=(unknown or {})[name]))
    return tuple(found)


def _releases(deployment: str, host: str, facts: Facts) -> Iterator[HistoryRelease]:
    """Oldest first, each against the one before it that can be read."""
    current = current_release(deployment, facts)
    before: Release | None = None
    for id, release in releases_of(deployment, facts).items():
        document = facts.releases[deployment][id]
        if release is None:
            yield HistoryRelease(
                host=host, release=id, current=id == current, unreadable=_unreadable(document)
            )
            continue
        needs = [each for instance in release.instances.values() for each in missing_of(instance, facts)]
        yield HistoryRelease(
            host=host,
            release=id,
            created=release.created,
            age_s=seconds_since(release.created, facts.clock),
            by=release.by,
            origin=release.origin,
            current=id == current,
            instances=tuple(
                _instances(deployment, release, before, facts, noted=document_schema(document) > 1)
            ),
            missing=tuple(dict.fromkeys(needs)),
        )
        before = release


def _unreadable(document: object) -> str:
    if isinstance(document, dict) and isinstance(document.get("unknown"), str):
        return str(document["unknown"])
    schema = document_schema(document)
    return f"of a form this version does not know (schema {schema})" if schema else "it is no release"


def _instances(
    deployment: str, release: Release, before: Release | None, facts: Facts, *, noted: bool
) -> Iterator[HistoryInstance]:
    former = before.instances if before else {}
    for name, instance in release.instances.items():
        became, why = _became(deployment, release, name, facts, noted=noted)
        was = former.get(name)
        diff = differences(was, instance, False)
        yield HistoryInstance(
            model=instance.model,
            container=name,
            change="new" if was is None else "changed" if diff else "same",
            diff=diff,
            became=became,
            why=why,
        )
    stays = passed_over(deployment, facts, release)
    for name, gone in former.items():
        if name not in release.instances and name not in stays:
            yield HistoryInstance(model=gone.model, container=name, change="removed")


def _became(deployment: str, release: Release, name: str, facts: Facts, *, noted: bool) -> tuple[Became, str]:
    container = _of_release(deployment, release.id, facts.containers.get(name))
    if container is not None and container.restart_policy != "no":
        return ("serving" if container.status == "running" else "down"), ""
    if _of_release(deployment, release.id, facts.containers.get(old_name(name))) is not None:
        return "kept", ""
    hold = facts.held.get(deployment, {}).get(name)
    if hold is not None and hold.release == release.id:
        return "failed", "; ".join(part for part in (hold.what, hold.cause) if part)
    if name in release.proven:
        return "proven", ""
    return ("unproven" if noted else ""), ""


def _of_release(deployment: str, release: str, container: Container | None) -> Container | None:
    mark = container.mark if container is not None else None
    return (
        container if mark is not None and (mark.deployment, mark.release) == (deployment, release) else None
    )
