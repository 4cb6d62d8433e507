"""Which quantisation, context and parallel are advised, and why. Pure.

In: the choices of one model on one host. Out: one of them, with the lines to write. What the manifest says
stays advised unless it does not fit, is slower than people read, or there is something better for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..types.deployment import HuggingFace, ModelScope, Placement
from ..types.recommendation import Advice, Choice, Combination
from .quant import bits_of

COMFORTABLE = 10.0
"""Tokens a second of one request: faster than people read."""

_USUAL_BITS = (4, 8)
"""Below, answers suffer; above, they hardly gain and every token reads more."""


def advise(placement: Placement, choices: Sequence[Choice], *, new: bool = False) -> Advice | None:
    """The best of `choices` for this wish; None where nothing fits, in any size. new: the manifest does not
    have the model, so that all of its lines are told."""
    chosen = next((choice for choice in choices if choice.chosen), None)
    fitting = [choice for choice in choices if choice.wish is not None]
    if not fitting:
        advice = _smaller(placement, choices)
    else:
        best, why = _of_fitting(fitting, chosen)
        advice = _advice(placement, best, placement.context or 0, placement.parallel, why)
    return advice if advice is None or not new else _entry(placement, advice)


def _of_fitting(fitting: Sequence[Choice], chosen: Choice | None) -> tuple[Choice, str]:
    usual = [choice for choice in fitting if _is_usual(choice)]
    quick = [choice for choice in usual if _is_quick(choice)]
    if chosen is None or chosen.wish is None:
        best = max(quick or usual or fitting, key=lambda choice: choice.size)
        return best, f"the largest that fits{'' if not quick else _quickly(quick)}"
    bits = bits_of(chosen.quant)
    if bits > _USUAL_BITS[1] and usual:
        best = max(quick or usual, key=lambda choice: choice.size)
        return (
            best,
            f"{chosen.quant} answers hardly better, and each of its tokens reads "
            f"{chosen.size / best.size:.1f} times as much",
        )
    if 0 < bits < _USUAL_BITS[0] and quick:
        best = max(quick, key=lambda choice: choice.size)
        return best, f"it fits, and answers suffer below {_USUAL_BITS[0]} bits"
    faster = [choice for choice in usual if choice.size < chosen.size]
    if chosen.speed is not None and not _is_quick(chosen) and faster:
        better = [choice for choice in faster if _is_quick(choice)]
        best = max(better, key=lambda choice: choice.size) if better else min(faster, key=lambda c: c.size)
        return (
            best,
            f"{chosen.quant} may be slower than {COMFORTABLE:.0f} tokens a second, which people wait for",
        )
    return chosen, "it fits" + (_quickly([chosen]) if _is_quick(chosen) else "")


def _smaller(placement: Placement, choices: Sequence[Choice]) -> Advice | None:
    """Nothing fits as wished: fewer requests at a time, else a shorter context; the chosen one first, then
    the largest that there is."""
    by_size = sorted(choices, key=lambda choice: (not choice.chosen, not _is_usual(choice), -choice.size))
    context = placement.context or 0
    for fits in (
        lambda each: each.context >= context and each.parallel <= placement.parallel,
        lambda each: each.parallel >= placement.parallel and each.context <= context,
        lambda each: True,
    ):
        for choice in by_size:
            ways: list[Combination] = [each for each in choice.largest if fits(each)]
            if ways:
                best = max(ways, key=lambda each: each.context * each.parallel)
                why = f"{context} × {placement.parallel} does not fit in any quantisation there is"
                tokens = min(best.context, context)
                return _advice(placement, choice, tokens, min(best.parallel, placement.parallel), why)
    return None


def _is_usual(choice: Choice) -> bool:
    return _USUAL_BITS[0] <= bits_of(choice.quant) <= _USUAL_BITS[1]


def _is_quick(choice: Choice) -> bool:
    return choice.speed is not None and choice.speed.one.low >= COMFORTABLE


def _quickly(choices: Sequence[Choice]) -> str:
    return f", and makes {COMFORTABLE:.0f} tokens a second or more for each request" if choices else ""


def _advice(placement: Placement, choice: Choice, context: int, parallel: int, why: str) -> Advice:
    lines = []
    if not choice.chosen and isinstance(placement.source, HuggingFace | ModelScope):
        lines.append(f"source: {_source(placement.source, choice.quant)}")
    lines += [f"context: {context}"] if context != placement.context else []
    lines += [f"parallel: {parallel}"] if parallel != placement.parallel else []
    return Advice(
        name=placement.model,
        quant=choice.quant,
        context=context,
        parallel=parallel,
        why=why,
        lines=tuple(lines),
    )


def _entry(placement: Placement, advice: Advice) -> Advice:
    lines = (
        f"source: {{huggingface: {placement.model}, quant: {advice.quant}}}",
        f"backend: {placement.backend}",
        f"on: [{placement.host}]",
        f"port: {placement.port}",
        f"context: {advice.context}",
        f"parallel: {advice.parallel}",
    )
    return msgspec.structs.replace(advice, name=_name(placement.model), lines=lines)


def _name(repository: str) -> str:
    """A model's name in the manifest, from its repository's: `org/Qwen3-4B-GGUF` → `qwen3-4b`."""
    stem = re.sub(r"[-_.]gguf$", "", repository.rpartition("/")[2].lower())
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:40].rstrip("-") or "model"


def _source(source: HuggingFace | ModelScope, quant: str) -> str:
    """The source with another quantisation, as the manifest writes it."""
    parts = [f"{'huggingface' if isinstance(source, HuggingFace) else 'modelscope'}: {source.repo}"]
    if source.revision not in ("main", "master"):
        parts.append(f"revision: {source.revision}")
    parts.append(f"quant: {quant}")
    if source.mmproj:
        parts.append(f'mmproj: "{source.mmproj}"')
    if source.token is not None:
        parts.append(f"token: {{{source.token.kind}: {source.token.name}}}")
    return f"{{{', '.join(parts)}}}"
