"""What already runs of a placement, and what of it stays. In: facts. Out: the recorded instance, wishes with
what they hold, limits that are kept. Pure.

A model whose wishes did not change keeps what it has: a newer version that estimates otherwise, or somebody
else's container, is no reason for a restart. What one engine was given says nothing of another's needs.
"""

from __future__ import annotations

from dataclasses import replace

from ..types.cpulist import told_cpulist
from ..types.deployment import Placement
from ..types.facts import Container, Facts
from ..types.names import container_name, old_name
from ..types.release import Instance, read_release
from .cores import Wish
from .demand import Demand


def running_instance(deployment: str, model: str, facts: Facts) -> Instance | None:
    """The spec that runs (or last ran) for a model on this host; None without a container or its record."""
    container = _container(deployment, model, facts)
    if container is None or container.mark is None:
        return None
    release = read_release(facts.releases.get(deployment, {}).get(container.mark.release))
    return release.instances.get(container_name(deployment, model, 0)) if release else None


def is_others(container: Container, deployment: str) -> bool:
    """Whether somebody else's container holds what it has: a foreign one that runs, another deployment's in
    any case (it may run again)."""
    if container.mark is None:
        return container.running
    return container.mark.deployment != deployment


def kept_wish(deployment: str, placement: Placement, playbook: str, facts: Facts, wish: Wish) -> Wish:
    """A wish with what it has now and may keep: it did not change, or its record is lost. playbook: the name
    of the one that is wanted; another engine keeps the cores, and has its own number of threads."""
    running = running_instance(deployment, placement.model, facts)
    if running is None:
        container = _container(deployment, placement.model, facts)
        return wish if container is None else replace(wish, running=container.cpuset)
    if running.cpus != placement.cpus:
        return wish
    if running.playbook != playbook:
        return replace(wish, running=running.container.cpuset)
    return replace(
        wish, running=running.container.cpuset, threads=running.threads, batch=running.threads_batch
    )


def kept_limit(wanted: Demand, running: Instance | None, playbook: str, image: str) -> int | None:
    """The limit of the running container while all that its need comes from is as it was, in bytes. playbook:
    the name of the one that is wanted. image: the reference, empty where nobody looked: versions of engines
    that are told the size of their cache differ by gigabytes."""
    if running is None or running.playbook != playbook:
        return None
    placement = wanted.placement
    now = (wanted.context, placement.parallel, wanted.tree, placement.memory, placement.kv)
    same = (running.context, running.parallel, running.tree, running.memory_asked, running.kv_asked) == now
    same = same and not (running.kv and image and image != running.image_reference)
    # A parameter that the record does not know of came with a newer playbook: nobody wished for it.
    told = all(running.params.get(name, value) == value for name, value in wanted.params.items())
    return running.container.memory if same and told else None


def ranks_of(running: Instance) -> int:
    """Parts that an engine which binds its own threads runs the model in: each has a NUMA node of its own. 0
    where it is bound to none."""
    return len(told_cpulist(running.container.cpuset_mems))


def _container(deployment: str, model: str, facts: Facts) -> Container | None:
    """Ours of that name, or the one that was kept of it where an interrupted change left no other."""
    name = container_name(deployment, model, 0)
    container = facts.containers.get(name) or facts.containers.get(old_name(name))
    ours = container is not None and container.mark is not None and container.mark.deployment == deployment
    return container if ours else None
