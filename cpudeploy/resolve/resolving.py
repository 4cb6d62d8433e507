"""The room's one door: everything the manifest names in the outside world, asked at once.

In: Deployment, the hosts' Facts, playbooks, secrets. Out: Resolved, and what of a model can't be had. Talks
to registries and Hubs only; hosts are known by their facts alone and never spoken to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..errors import CpudeployError
from ..secrets import Secrets
from ..types.deployment import (
    Backend,
    Deployment,
    HostPath,
    HuggingFace,
    ModelScope,
    Placement,
    Source,
    Upload,
    Url,
)
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.resolved import Resolved, ResolvedImage, ResolvedWeights
from .access import Access
from .cache import Cache
from .hub import Hub
from .images import resolve_image
from .known import HeldTree, held_blobs, held_tree, known_image
from .modelscope import Scope
from .secret_marks import held_states, key_errors, secret_states
from .selection import Format
from .weights import Asking, resolve_weights

_AT_ONCE = 8

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


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
) -> tuple[Resolved, dict[str, str]]:
    """What registries and Hubs say about every placed backend and model, and `model@host` → why its image,
    its files or a secret can't be had: one line, with where and what to do. All else is resolved.

    Hosts without facts take part in nothing that needs them. `cache` is a folder for what never
    changes, None: remember nothing. Without `images` no registry is asked, nor any secret's state.
    `waiting` is told every `waiting_s` seconds what is still awaited, as long as something is.
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
    told: Mapping[str, Facts] = facts if images else {}
    used = {placement.backend: deployment.backends[placement.backend] for placement in deployment.placements}
    wanted = {
        f"{placement.model}@{placement.host}": (placement.source, _format(deployment, placement, playbooks))
        for placement in deployment.placements
    }

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        keys = pool.submit(key_errors, deployment, told, secrets)
        states = pool.submit(secret_states, deployment, told, secrets)
        held = pool.submit(held_states, deployment, told, secrets)
        pulled = {
            name: pool.submit(_image, deployment, backend, facts, access)
            for name, backend in used.items()
            if images
        }
        # One question a source, however many hosts it is for.
        weights = {
            (source, form): pool.submit(_weights, deployment, source, form, facts, asking)
            for source, form in dict.fromkeys(wanted.values())
        }
        awaited: dict[Future[Any], str] = {
            **{future: f"image {used[name].image}" for name, future in pulled.items()},
            **{future: f"model {_told(source)}" for (source, _), future in weights.items()},
            **dict.fromkeys((keys, states, held), "secrets"),
        }
        while open_ := wait(awaited, timeout=waiting_s).not_done:
            waiting(list(dict.fromkeys(name for future, name in awaited.items() if future in open_)))
    found_images, no_images = _ended(pulled)
    found_weights, no_weights = _ended(weights)
    no_keys = keys.result()
    missing: dict[str, str] = {}
    for placement in deployment.placements:
        key = f"{placement.model}@{placement.host}"
        errors = (no_images.get(placement.backend), no_weights.get(wanted[key]), no_keys.get(key))
        lines = dict.fromkeys(error.line for error in errors if error is not None)
        if lines:
            missing[key] = "; also ".join(lines)
    resolved = Resolved(
        images=found_images,
        weights={key: found_weights[each] for key, each in wanted.items() if each in found_weights},
        secrets=states.result(),
        held_secrets=held.result(),
    )
    return resolved, missing


def _image(
    deployment: Deployment, backend: Backend, facts: Mapping[str, Facts], access: Access
) -> ResolvedImage:
    known = known_image(deployment, backend, facts)
    return resolve_image(backend.image, mirrors=deployment.mirrors.images, access=access, known=known)


def _weights(
    deployment: Deployment, source: Source, form: Format, facts: Mapping[str, Facts], asking: Asking
) -> ResolvedWeights:
    return resolve_weights(source, form, asking, _released(deployment, source, facts))


def _ended(asked: Mapping[K, Future[T]]) -> tuple[dict[K, T], dict[K, CpudeployError]]:
    """What came, and why the rest can't be had. Raises what is no answer of the outside world."""
    found: dict[K, T] = {}
    failed: dict[K, CpudeployError] = {}
    for key, future in asked.items():
        try:
            found[key] = future.result()
        except CpudeployError as error:
            failed[key] = error
    return found, failed


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
