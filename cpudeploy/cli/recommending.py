"""From a manifest and a question to Recommendations. What the hosts told or somebody recorded goes in.

Placements that can't be carried out, and hosts nobody could ask, have a Recommendation that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import UsageError
from ..manifest import Manifest
from ..plan import plannable
from ..plan.not_yet import deployment_not_yet, host_not_yet, model_not_yet
from ..plan.recorded import resolved_from
from ..resolve import resolve
from ..sizing.recommend import recommend
from ..types.deployment import Deployment, HuggingFace, ModelScope, Placement
from ..types.facts import Facts
from ..types.playbook import Playbook
from ..types.recommendation import Recommendation
from ..types.resolved import Resolved
from .deciding import cache_folder
from .records import read_facts, read_records
from .site import Site, narrowed

_DEFAULT_QUANT = "Q4_K_M"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Question:
    """What is asked. model: one of the manifest, a Hub repository that is not in it, or empty for all.
    quant, context, parallel: instead of the manifest's."""

    model: str = ""
    quant: str | None = None
    context: int | None = None
    parallel: int | None = None

    @property
    def repository(self) -> bool:
        """Whether it is about a repository, not a model of the manifest."""
        return "/" in self.model

    @property
    def wishes(self) -> tuple[str, ...]:
        """The options that say something else than the manifest."""
        given = {"--quant": self.quant, "--context": self.context, "--parallel": self.parallel}
        return tuple(option for option, value in given.items() if value is not None)


def ask_hosts(site: Site, question: Question) -> list[Recommendation]:
    """From what the hosts told. Raises UsageError."""
    deployment = posed(site.deployment, site.manifest.playbooks, question)

    def told(wanted: Deployment) -> tuple[Resolved, dict[str, str]]:
        folder = cache_folder()
        cache = None if folder is None else folder / "resolve"
        playbooks = site.manifest.playbooks
        return resolve(wanted, site.facts, playbooks, site.secrets, cache=cache, images=False)

    untold = {name: error.sentence for name, error in site.troubles.items()}
    return _recommendations(site.manifest, deployment, question, site.facts, untold, told)


def ask_records(
    manifest: Manifest, deployment: Deployment, question: Question, folder: Path
) -> list[Recommendation]:
    """From what `facts -o` recorded. Raises RecordError."""
    posing = posed(deployment, manifest.playbooks, question)
    read = {name: read_facts(folder, name) for name in posing.hosts}
    facts = {name: each for name, each in read.items() if each is not None}
    untold = dict.fromkeys(read.keys() - facts.keys(), f"no facts of it are recorded in {folder}")
    records = read_records(folder)

    def told(wanted: Deployment) -> tuple[Resolved, dict[str, str]]:
        return resolved_from(wanted, manifest.playbooks, records)

    return _recommendations(manifest, posing, question, facts, untold, told)


def posed(deployment: Deployment, playbooks: Mapping[str, Playbook], question: Question) -> Deployment:
    """The deployment with what is asked in place of what it says. Raises UsageError for a model there is not,
    a wish for several of them at once (each would be tried beside the others so changed), a quantisation of a
    source that has one file, and what can't be a repository's name."""
    if question.repository:
        if not _REPOSITORY.fullmatch(question.model):
            raise UsageError(
                f"{question.model} is no repository's name",
                do="write org/name as the Hub shows it, without an address before it",
            )
        new = tuple(_placed(deployment, playbooks, question))
        return msgspec.structs.replace(deployment, placements=(*deployment.placements, *new))
    models = list(dict.fromkeys(placement.model for placement in deployment.placements))
    if question.model and question.model not in models:
        raise UsageError(
            f"no model {question.model} here",
            do=f"choose from: {', '.join(models) or 'none'}; or name a Hub repository (org/name)",
        )
    if not question.model and len(models) > 1 and question.wishes:
        raise UsageError(
            f"{question.wishes[0]} is asked of one model, and there are several",
            do=f"name the one that is meant: {', '.join(models)}",
        )
    return msgspec.structs.replace(
        deployment,
        placements=tuple(
            _changed(each, question, playbooks[deployment.backends[each.backend].playbook])
            if question.model in ("", each.model)
            else each
            for each in deployment.placements
        ),
    )


def _placed(
    deployment: Deployment, playbooks: Mapping[str, Playbook], question: Question
) -> Iterable[Placement]:
    engines = {playbooks[each.playbook].memory: name for name, each in reversed(deployment.backends.items())}
    # Publishers mark repositories of GGUF files; a quantisation is only asked of those.
    of_gguf = "gguf" in question.model.lower() or question.quant is not None or "paged" not in engines
    backend = engines.get("gguf" if of_gguf else "paged")
    if backend is None:
        raise UsageError(
            f"the manifest has no backend that {question.model} could be tried with",
            do='add one under `backends`: {llama: {playbook: llama-cpp, image: "…"}}',
        )
    quant = (question.quant or _DEFAULT_QUANT) if of_gguf else None
    port = 1 + max((each.last_port or each.port for each in deployment.placements), default=8099)
    for name, host in deployment.hosts.items():
        if not host.retired:
            yield Placement(
                model=question.model,
                host=name,
                source=HuggingFace(repo=question.model, quant=quant),
                backend=backend,
                port=min(port, 65535),
                context=question.context,
                parallel=question.parallel or 1,
                served_name=question.model,
            )


def _changed(placement: Placement, question: Question, playbook: Playbook) -> Placement:
    source = placement.source
    if question.quant is not None:
        if playbook.weights == "safetensors":
            raise UsageError(
                f"--quant: {placement.model} is served from safetensors, as they are",
                do="leave it out, or ask about the repository of its GGUF files",
            )
        if not isinstance(source, HuggingFace | ModelScope):
            raise UsageError(
                f"--quant: {placement.model} is one file, not a repository to choose from", do="leave it out"
            )
        source = msgspec.structs.replace(source, quant=question.quant, files=())
    return msgspec.structs.replace(
        placement,
        source=source,
        context=question.context or placement.context,
        parallel=question.parallel or placement.parallel,
    )


def _recommendations(
    manifest: Manifest,
    deployment: Deployment,
    question: Question,
    facts: Mapping[str, Facts],
    untold: Mapping[str, str],
    look_up: Callable[[Deployment], tuple[Resolved, dict[str, str]]],
) -> list[Recommendation]:
    playbooks = manifest.playbooks
    wanted = plannable(narrowed(deployment, facts))
    resolved, missing = look_up(wanted)
    written = {f"{each.model}@{each.host}": each for each in manifest.deployment.placements}

    def one(placement: Placement) -> Recommendation:
        host = deployment.hosts[placement.host]
        problem = (
            untold.get(placement.host)
            or deployment_not_yet(deployment)
            or host_not_yet(host)
            or model_not_yet(placement)
        )
        key = f"{placement.model}@{placement.host}"
        if not problem and key not in resolved.weights:
            problem = missing[key]
        if problem:
            return Recommendation(model=placement.model, host=placement.host, problem=problem)
        return recommend(
            wanted, placement, facts[placement.host], resolved, playbooks, written=written.get(key)
        )

    asked = (each for each in deployment.placements if question.model in ("", each.model))
    return [one(placement) for placement in asked]
