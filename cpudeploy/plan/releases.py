"""A host's releases as its facts have them: which there are, which serves, what each would need. Pure."""

from __future__ import annotations

from ..types.facts import Facts
from ..types.names import base_name
from ..types.release import Instance, Release, by_age, read_release, release_number
from .put_back import image_digest


def releases_of(deployment: str, facts: Facts) -> dict[str, Release | None]:
    """Release id → the release, oldest first; None for one that can't be read."""
    documents = facts.releases.get(deployment, {})
    return {id: read_release(documents[id]) for id in by_age(documents)}


def current_release(deployment: str, facts: Facts) -> str:
    """The newest release that a container which has passed its gate is of; empty without one.

    Not the newest there is: that one may have failed.
    """
    return (by_age(_proven(deployment, facts).values()) or [""])[-1]


def serving_instances(deployment: str, facts: Facts) -> dict[str, Instance]:
    """Container name → what it was made from, of those that have passed their gate and have a record."""
    releases = releases_of(deployment, facts)
    found = {}
    for name, id in _proven(deployment, facts).items():
        release = releases.get(id)
        if release is not None and name in release.instances:
            found[name] = release.instances[name]
    return found


def _proven(deployment: str, facts: Facts) -> dict[str, str]:
    """Container name → its release, of those that have passed their gate."""
    return {
        name: container.mark.release
        for name, container in facts.containers.items()
        if container.mark is not None
        and container.mark.deployment == deployment
        and container.restart_policy != "no"
        and name == base_name(name)
    }


def passed_over(deployment: str, facts: Facts, release: Release) -> frozenset[str]:
    """Names of our containers that are older than `release` and that it does not name: who applied it left
    them alone, for what is removed with a release is there no more."""
    number = release_number(release.id)
    return frozenset(
        name
        for name, container in facts.containers.items()
        if container.mark is not None
        and container.mark.deployment == deployment
        and 0 < release_number(container.mark.release) < number
        and base_name(name) not in release.instances
    )


def all_proven(release: Release) -> bool:
    """Whether everything in it has passed its gate."""
    return set(release.instances) <= set(release.proven)


def missing_of(instance: Instance, facts: Facts) -> tuple[str, ...]:
    """What the instance needs and the host does not hold any more, for people."""
    found = []
    digest = image_digest(instance)
    if digest not in facts.images:
        found.append(f"image {instance.image_reference or instance.container.image} ({digest[:19]}…)")
    if instance.tree and instance.tree not in facts.weights.trees:
        found.append(f"weights {instance.source}")
    return tuple(found)


def named(asked: str, releases: dict[str, Release | None]) -> str | None:
    """The id that somebody means: a whole one, or its number alone (`7` or `0007`)."""
    if asked in releases:
        return asked
    if not (asked.isascii() and asked.isdecimal()):
        return None
    return next((id for id in releases if release_number(id) == int(asked)), None)
