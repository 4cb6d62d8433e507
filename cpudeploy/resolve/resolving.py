"""The room's one door: everything the manifest names in the outside world, asked at once.

In: Deployment, the hosts' Facts, playbooks, secrets. Out: Resolved. Talks to registries and Hubs
only; hosts are known by their facts alone and never spoken to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import CpudeployError
from ..secrets import Secrets
from ..types.deployment import Deployment, HostPath, HuggingFace, ModelScope, Placement, Source, Upload, Url
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.resolved import Resolved
from .access import Access
from .cache import Cache
from .hub import Hub
from .images import resolve_image
from .known import HeldTree, held_blobs, held_tree, known_image
from .modelscope import Scope
from .secret_marks import held_states, secret_states
from .selection import Format
from .weights import Asking, resolve_weights

_AT_ONCE = 8


def resolve(
    deployment: Deployment,
    facts: Mapping[str, Facts],
    playbooks: Mapping[str, Playbook],
    secrets: Secrets,
    *,
    cache: Path | None,
    images: bool = True,
    waiting: Callable[[Sequence[str]], None] = lambda awaited: None,
    waiting_s: float = 5,
) -> Resolved:
    """What registries and Hubs say about every placed backend and model.

    Hosts without facts take part in nothing that needs them. `cache` is a folder for what never
    changes, None: remember nothing. Without `images` no registry is asked, nor any secret's state.
    `waiting` is told every `waiting_s` seconds what is still awaited, as long as something is.
    Raises RegistryError, HubError, HostError or SecretError; several failures are told in one.
    """
    access = Access(deployment.registries, secrets)
    asking = Asking(
        hub=Hub.of(deployment.mirrors.huggingface),
        secrets=secrets,
        cache=Cache(cache),
        held=held_blobs(facts),
        scope=Scope.of(deployment.mirrors.modelscope),
        base=deployment.base,
    )
    used = {placement.backend: deployment.backends[placement.backend] for placement in deployment.placements}
    wanted = {
        f"{placement.model}@{placement.host}": (placement.source, _format(deployment, placement, playbooks))
        for placement in deployment.placements
    }

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        states = pool.submit(secret_states, deployment, facts if images else {}, secrets)
        held = pool.submit(held_states, deployment, facts if images else {}, secrets)
        pulled = {
            name: pool.submit(
                resolve_image,
                backend.image,
                mirrors=deployment.mirrors.images,
                access=access,
                known=known_image(deployment, backend, facts),
            )
            for name, backend in used.items()
            if images
        }
        # One question a source, however many hosts it is for.
        weights = {
            (source, form): pool.submit(
                resolve_weights, source, form, asking, _released(deployment, source, facts)
            )
            for source, form in dict.fromkeys(wanted.values())
        }
        awaited: dict[Future[Any], str] = {
            **{future: f"image {used[name].image}" for name, future in pulled.items()},
            **{future: f"model {_told(source)}" for (source, _), future in weights.items()},
            states: "secrets",
            held: "secrets",
        }
        while open_ := wait(awaited, timeout=waiting_s).not_done:
            waiting(list(dict.fromkeys(name for future, name in awaited.items() if future in open_)))
    _raise_all([*pulled.values(), *weights.values(), states, held])
    return Resolved(
        images={name: future.result() for name, future in pulled.items()},
        weights={key: weights[each].result() for key, each in wanted.items()},
        secrets=states.result(),
        held_secrets=held.result(),
    )


def _told(source: Source) -> str:
    """A source in a few words; of an address without what may be a login."""
    if isinstance(source, Url):
        parts = urlsplit(source.url)
        return f"{parts.hostname}{parts.path}"
    return source.path if isinstance(source, Upload | HostPath) else source.repo


def _released(deployment: Deployment, source: Source, facts: Mapping[str, Facts]) -> HeldTree | None:
    return held_tree(deployment, source, facts) if isinstance(source, HuggingFace | ModelScope) else None


def _format(deployment: Deployment, placement: Placement, playbooks: Mapping[str, Playbook]) -> Format:
    playbook = playbooks.get(deployment.backends[placement.backend].playbook)
    return (playbook.weights if playbook else None) or "gguf"


def _raise_all(futures: Iterable[Future[Any]]) -> None:
    """Raise what failed: the first failure's class and place, the others told below it with their advice."""
    failures = [future.exception() for future in futures]
    told = list({str(each): each for each in failures if isinstance(each, CpudeployError)}.values())
    unexpected = next((each for each in failures if each and not isinstance(each, CpudeployError)), None)
    if unexpected is not None:
        raise unexpected
    if told:
        # Each keeps its own advice below it; the last one's is the error's.
        first, last = told[0], told[-1]
        text = "\nalso ".join([*map(str, told[:-1]), f"{last.where}: {last.what}"])
        raise type(first)(text.removeprefix(f"{first.where}: "), where=first.where, do=last.do)
