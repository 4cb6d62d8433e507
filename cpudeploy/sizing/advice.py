"""Which quantisation, context and parallel are advised, and why. Pure.

In: the choices of one model on one host. Out: one of them, with the lines to write. What the manifest says
stays advised unless it does not fit, is slower than people read, or there is something better for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..types.deployment import HuggingFace, ModelScope, Placement
from ..types.recommendation import Advice, Choice
from .quant import USUAL_BITS, bits_of

COMFORTABLE = 10.0
"""Tokens a second of one request: faster than people read."""


def advise(wish: Placement, choices: Sequence[Choice], *, written: Placement | None) -> Advice | None:
    """The best of `choices` for this wish; None where nothing fits, in any size. written: what the manifest
    says, of which the lines that differ are told; None where it does not have the model: all are."""
    chosen = next((choice for choice in choices if choice.chosen), None)
    fitting = [choice for choice in choices if choice.wish is not None]
    if not fitting:
        return _smaller(wish, written, choices)
    best, why = _of_fitting(fitting, chosen)
    return _advice(wish, written, best, wish.context or 0, wish.parallel, why)


def _of_fitting(fitting: Sequence[Choice], chosen: Choice | None) -> tuple[Choice, str]:
    usual = [choice for choice in fitting if _is_usual(choice)]
    quick = [choice for choice in usual if _is_quick(choice)]
    if chosen is None or chosen.wish is None:
        best = max(quick or usual or fitting, key=lambda choice: choice.size)
        return best, f"the largest that fits{'' if not quick else _quickly(quick)}"
    bits = bits_of(chosen.quant)
    if bits > USUAL_BITS[1] and usual:
        best = max(quick or usual, key=lambda choice: choice.size)
        return (
            best,
            f"{chosen.quant} answers hardly better, and each of its tokens reads "
            f"{chosen.size / best.size:.1f} times as much",
        )
    if 0 < bits < USUAL_BITS[0] and quick:
        best = max(quick, key=lambda choice: choice.size)
        return best, f"it fits, and answers suffer below {USUAL_BITS[0]} bits"
    faster = [choice for choice in usual if choice.size < chosen.size]
    if chosen.speed is not None and not _is_quick(chosen) and faster:
        better = [choice for choice in faster if _is_quick(choice)]
        best = max(better, key=lambda choice: choice.size) if better else min(faster, key=lambda c: c.size)
        return (
            best,
            f"{chosen.quant} may be slower than {COMFORTABLE:.0f} tokens a second, which people wait for",
        )
    return chosen, "it fits" + (_quickly([chosen]) if _is_quick(chosen) else "")


def _smaller(wish: Placement, written: Placement | None, choices: Sequence[Choice]) -> Advice | None:
    """Nothing fits as wished: fewer requests at a time, else a shorter context; the chosen one first, then
    the largest that there is."""
    by_size = sorted(choices, key=lambda choice: (not choice.chosen, not _is_usual(choice), -choice.size))
    context = wish.context or 0
    for fits in (
        lambda each: each.context >= context and each.parallel <= wish.parallel,
        lambda each: each.parallel >= wish.parallel and each.context <= context,
        lambda each: True,
    ):
        for choice in by_size:
            # More than the wish is worth nothing: compared is what of it each combination gives.
            ways = [
                (min(each.context, context), min(each.parallel, wish.parallel))
                for each in choice.largest
                if fits(each)
            ]
            if ways:
                tokens, requests = max(ways, key=lambda way: (way[0] * way[1], way))
                why = (
                    f"{context} × {wish.parallel} does not fit by backend {wish.backend} in any quantisation"
                )
                return _advice(wish, written, choice, tokens, requests, why)
    return None


def _is_usual(choice: Choice) -> bool:
    return USUAL_BITS[0] <= bits_of(choice.quant) <= USUAL_BITS[1]


def _is_quick(choice: Choice) -> bool:
    return choice.speed is not None and choice.speed.one.low >= COMFORTABLE


def _quickly(choices: Sequence[Choice]) -> str:
    return f", and makes {COMFORTABLE:.0f} tokens a second or more for each request" if choices else ""


def _advice(
    wish: Placement, written: Placement | None, choice: Choice, context: int, parallel: int, why: str
) -> Advice:
    advice = Advice(name=wish.model, quant=choice.quant, context=context, parallel=parallel, why=why)
    if written is None:
        return msgspec.structs.replace(advice, name=_name(wish.model), lines=_entry(wish, advice))
    lines = []
    source = written.source
    if isinstance(source, HuggingFace | ModelScope):
        # A source that names no quantisation has one all the same.
        same = choice.chosen and wish.source == source
        if not same and choice.quant.upper() != (source.quant or "").upper():
            lines.append(f"source: {_source(source, choice.quant)}")
    lines += [f"context: {context}"] if context != written.context else []
    lines += [f"parallel: {parallel}"] if parallel != written.parallel else []
    return msgspec.structs.replace(advice, lines=tuple(lines))


def _entry(wish: Placement, advice: Advice) -> tuple[str, ...]:
    """All lines of a model that the manifest does not have."""
    named = isinstance(wish.source, HuggingFace) and wish.source.quant is not None
    return (
        f"source: {{huggingface: {wish.model}{f', quant: {advice.quant}' if named else ''}}}",
        f"backend: {wish.backend}",
        f"on: [{wish.host}]",
        f"port: {wish.port}",
        f"context: {advice.context}",
        f"parallel: {advice.parallel}",
    )


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
