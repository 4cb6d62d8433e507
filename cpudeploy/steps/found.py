"""A model's containers as a host has them: the current one, the one kept while replacing, their records.

Every state an interrupted change can leave is told apart here by facts of the engine alone: a restart
policy other than `no` means that the container has passed its gate once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import HostError
from ..types.facts import Container
from ..types.release import Instance, read_release
from .context import HostContext


@dataclass(frozen=True)
class Found:
    """One container name. `recorded…`: the spec it was created from, None where the record is lost."""

    name: str
    current: Container | None
    old: Container | None
    recorded: Instance | None
    recorded_old: Instance | None

    @property
    def old_name(self) -> str:
        return f"{self.name}_old"

    @property
    def proven(self) -> bool:
        """Whether the current container has passed its gate once."""
        return self.current is not None and self.current.restart_policy != "no"

    @property
    def up(self) -> bool:
        """Whether it really runs: a paused or endlessly restarting one is `running` for the engine too."""
        return self.current is not None and self.current.status == "running"


def find(context: HostContext, name: str) -> Found:
    """What stands under `name`. Raises HostError when it is not ours."""
    current = _ours(context, name)
    old = _ours(context, f"{name}_old")
    return Found(
        name=name,
        current=current,
        old=old,
        recorded=_recorded(context, name, current),
        recorded_old=_recorded(context, name, old),
    )


def is_ours(context: HostContext, container: Container) -> bool:
    """Whether a container bears this deployment's mark."""
    return container.mark is not None and container.mark.deployment == context.deployment.name


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
