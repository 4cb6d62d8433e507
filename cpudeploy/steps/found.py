"""A model's containers as a host has them: the current one, what changes have left beside it, their records.

Every state an interrupted change can leave is told apart here by facts of the engine alone: a restart
policy other than `no` means that the container has passed its gate once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import HostError
from ..types.facts import Container
from ..types.names import base_name, next_name, old_name
from ..types.release import Instance, read_release
from .context import HostContext


@dataclass(frozen=True)
class Found:
    """One container name. `next`: a new one that was to take its place. `recorded…`: the spec it was created
    from, None where the record is lost."""

    name: str
    current: Container | None
    old: Container | None
    next: Container | None
    recorded: Instance | None
    recorded_old: Instance | None

    @property
    def old_name(self) -> str:
        return old_name(self.name)

    @property
    def next_name(self) -> str:
        return next_name(self.name)

    @property
    def proven(self) -> bool:
        """Whether the current container has passed its gate once."""
        return self.current is not None and self.current.restart_policy != "no"

    @property
    def up(self) -> bool:
        """Whether it really runs: a paused or endlessly restarting one is `running` for the engine too."""
        return self.current is not None and self.current.status == "running"

    @property
    def clean(self) -> bool:
        """Whether no change has left anything beside it."""
        return self.old is None and self.next is None

    @property
    def settled(self) -> Found:
        """What stands there once everything is undone that was never proven: what served before, if any did.
        Alone, it stays though unproven: it may still pass its gate."""
        if self.proven or self.old is None:
            return replace(self, old=None, next=None, recorded_old=None)
        return replace(
            self, current=self.old, recorded=self.recorded_old, old=None, next=None, recorded_old=None
        )


def find(context: HostContext, name: str) -> Found:
    """What stands under `name`. Raises HostError when it is not ours."""
    current = _ours(context, name)
    old = _ours(context, old_name(name))
    return Found(
        name=name,
        current=current,
        old=old,
        next=_ours(context, next_name(name)),
        recorded=_recorded(context, name, current),
        recorded_old=_recorded(context, name, old),
    )


def is_ours(context: HostContext, container: Container) -> bool:
    """Whether a container bears this deployment's mark."""
    return container.mark is not None and container.mark.deployment == context.deployment.name


def names_of(context: HostContext, name: str) -> frozenset[str]:
    """The names of our containers that are `name`, or stand beside it."""
    return frozenset(
        each
        for each, container in context.facts.containers.items()
        if base_name(each) == name and is_ours(context, container)
    )


def _ours(context: HostContext, name: str) -> Container | None:
    container = context.facts.containers.get(name)
    if container is not None and not is_ours(context, container):
        raise HostError(
            f"a container named {name} is there already and is not ours",
            where=context.host.name,
            do=f"rename or remove it (docker rm {name}), or choose another deployment or model name",
        )
    return container


def _recorded(context: HostContext, name: str, container: Container | None) -> Instance | None:
    if container is None or container.mark is None:
        return None
    releases = context.facts.releases.get(context.deployment.name, {})
    release = read_release(releases.get(container.mark.release))
    return release.instances.get(name) if release else None
