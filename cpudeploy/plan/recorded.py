"""What was recorded of the outside world, matched with what a manifest wants. Pure.

In: deployment, playbooks, records. Out: `Resolved` of all that was recorded, and for each model of which
something was not: what. The other way round for recording.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types.deployment import Deployment, HostPath, Placement
from ..types.playbook import Playbook
from ..types.records import RecordedWeights, Records, WeightsFormat
from ..types.references import parse_reference
from ..types.resolved import Resolved, ResolvedImage, ResolvedWeights


def resolved_from(
    deployment: Deployment, playbooks: Mapping[str, Playbook], records: Records
) -> tuple[Resolved, dict[str, str]]:
    """What the records say of every placed backend and model, and `model@host` → what nobody recorded.
    Nothing is known of secrets."""
    images: dict[str, ResolvedImage] = {}
    weights: dict[str, ResolvedWeights] = {}
    missing: dict[str, str] = {}
    for placement in deployment.placements:
        key = f"{placement.model}@{placement.host}"
        reference = _reference(deployment, placement)
        image = records.images.get(reference)
        told = _weights(records, placement, _format(deployment, playbooks, placement))
        if image is not None:
            images[placement.backend] = image
        if told is not None:
            weights[key] = told
        lacking = [f"its image {reference}"] if image is None else []
        lacking += ["its source"] if told is None else []
        if lacking:
            missing[key] = (
                f"nothing is recorded of {' and '.join(lacking)}; do: record it with `cpudeploy facts -o DIR`"
            )
    return Resolved(images=images, weights=weights), missing


def records_of(deployment: Deployment, playbooks: Mapping[str, Playbook], resolved: Resolved) -> Records:
    """What was resolved for a deployment, in the form that is kept."""
    images: dict[str, ResolvedImage] = {}
    weights: dict[tuple[object, str], RecordedWeights] = {}
    for placement in deployment.placements:
        form = _format(deployment, playbooks, placement)
        told = resolved.weights.get(f"{placement.model}@{placement.host}")
        if told is not None:
            weights[(placement.source, form)] = RecordedWeights(
                source=placement.source, format=form, told=told
            )
        if placement.backend in resolved.images:
            images[_reference(deployment, placement)] = resolved.images[placement.backend]
    return Records(images=images, weights=tuple(weights.values()))


def unrecorded(deployment: Deployment, resolved: Resolved) -> dict[str, str]:
    """`model@host` → what of it was not resolved: `image`, `weights`, or both."""
    found = {}
    for placement in deployment.placements:
        key = f"{placement.model}@{placement.host}"
        lacking = ["image"] if placement.backend not in resolved.images else []
        lacking += ["weights"] if key not in resolved.weights else []
        if lacking:
            found[key] = " and ".join(lacking)
    return found


def _weights(records: Records, placement: Placement, form: WeightsFormat) -> ResolvedWeights | None:
    source = placement.source
    told = next((each.told for each in records.weights if each.answers(source, form)), None)
    if told is None and isinstance(source, HostPath):
        # Nobody has to be asked for what lies on the host: its facts tell.
        return ResolvedWeights(
            tree="", source=f"path {source.path}", revision="", files=(), entry=source.path.rpartition("/")[2]
        )
    return told


def _reference(deployment: Deployment, placement: Placement) -> str:
    return str(parse_reference(deployment.backends[placement.backend].image))


def _format(deployment: Deployment, playbooks: Mapping[str, Playbook], placement: Placement) -> WeightsFormat:
    return playbooks[deployment.backends[placement.backend].playbook].weights or "gguf"
