"""The same model by the other engine: what it would be there, and whether that is worth trying. Pure.

llama.cpp serves GGUF files, mostly quantised; vLLM computes in 16 bits from safetensors. One is made from the
other by its publisher, so that their sizes follow from the number of parameters. What speaks for and against
is the field's experience (docs/recommend.md), each time with the numbers of this host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from ..types.base import Unknown
from ..types.capability import able
from ..types.deployment import HuggingFace, ModelScope, Placement
from ..types.facts import Facts
from ..types.recommendation import Choice, EngineAdvice, Rate
from ..types.resolved import ResolvedWeights, UnreadFile
from ..types.shape import ModelShape, Tensors, Variant
from .memory import gib
from .quant import USUAL_BITS, bits_of, tensors_of

FEW, MANY = 4, 8
"""Requests at a time up to which quantised weights win, and from which 16-bit ones may."""

_BITS = {"Q4_K_M": 4.89, "Q8_0": 8.5}
"""Quantisations that most publishers have, and bits a weight of such files (Llama-3.1-8B)."""
_SHARD = 5_000_000_000
"""Bytes of one file at most, as publishers cut safetensors."""


def by_vllm(
    weights: ResolvedWeights, shape: ModelShape
) -> tuple[str, int, tuple[ResolvedWeights, ...]] | None:
    """Name, bytes and weights of a GGUF's model in BF16; None where nobody tells its number of parameters."""
    parameters = _parameters(weights.tensors, shape)
    if not parameters:
        return None
    size = 2 * parameters
    table = 2 * shape.vocabulary * shape.embedding
    # The larger need counts: a token table apart from the output matrix is kept twice as well.
    tensors = Tensors(
        size=size,
        matrices={"BF16": max(size - table, size // 2)},
        experts=_share(weights.tensors, size),
    )
    return "BF16", size, (_files(weights, "BF16", size, tensors),)


def by_llama(
    weights: ResolvedWeights, shape: ModelShape, tensors: Tensors
) -> Iterator[tuple[str, int, tuple[ResolvedWeights, ...]]]:
    """The same of a safetensors model in the usual quantisations."""
    parameters = _parameters(tensors, shape)
    for quant, bits in _BITS.items():
        size = int(parameters * bits / 8)
        ways = tensors_of(tensors, Variant(quant=quant, size=size))
        yield quant, size, tuple(_files(weights, quant, size, each) for each in ways)


def _parameters(tensors: Tensors | None, shape: ModelShape) -> int:
    """As told, else at most as many as its bytes can hold; 0: not known."""
    if shape.parameters or tensors is None or not tensors.matrices:
        return shape.parameters
    least = min(bits_of(kind) for kind in tensors.matrices)
    return tensors.size * 8 // least if least else 0


def _share(tensors: Tensors | None, size: int) -> int:
    return tensors.experts * size // tensors.size if tensors is not None and tensors.size else 0


def _files(weights: ResolvedWeights, name: str, size: int, tensors: Tensors) -> ResolvedWeights:
    """As if somebody had resolved it: nobody knows its files but for their size."""
    unread = Unknown(unknown="nobody was asked")
    sizes = [min(_SHARD, size - start) for start in range(0, size, _SHARD)]
    return msgspec.structs.replace(
        weights,
        tree="",
        files=tuple(
            UnreadFile(name=f"{name}-{number}", size=each, sha256=unread) for number, each in enumerate(sizes)
        ),
        tensors=tensors,
        projector="",
        variants=(),
    )


def engine_advice(
    wish: Placement, facts: Facts, vllm: Choice, llama: Choice | None, *, backend: str
) -> EngineAdvice:
    """Whether vLLM is worth trying for this wish. llama: the best there is by llama.cpp, None: nothing to
    compare with. backend: vLLM's name in the manifest."""
    against = [*_room_against(vllm, llama), *_cpu_against(facts), *_few(wish, vllm, llama)]
    favour = [*_cpu_for(facts), *_many(wish)]
    verdict: Literal["poor", "open", "may win"] = "may win" if len(favour) > 1 else "open"
    if against:
        verdict = "poor"
    numbers = [*_room(vllm, llama), *_speeds(wish, vllm, llama)]
    return EngineAdvice(
        backend=backend, verdict=verdict, reasons=(*(against or favour), *numbers, *_files_of(wish, vllm))
    )


def _room_against(vllm: Choice, llama: Choice | None) -> Iterator[str]:
    if vllm.wish is None:
        fits = f", and {llama.quant} by llama.cpp does" if llama is not None and llama.wish else ""
        yield f"it does not fit as wished{fits}"


def _cpu_against(facts: Facts) -> Iterator[str]:
    if facts.os.arch == "amd64" and able(facts, "avx512") is False:
        yield "this CPU has no AVX-512, which its kernels are made for"
    if facts.os.arch == "arm64" and able(facts, "bf16") is False:
        yield "this CPU has no bfloat16: the model is computed in 32 bits"


def _few(wish: Placement, vllm: Choice, llama: Choice | None) -> Iterator[str]:
    if wish.parallel > FEW:
        return
    told = "one request at a time" if wish.parallel == 1 else f"only {wish.parallel} requests at a time"
    if llama is None or not _is_usual(llama):
        yield f"{told}: of a quantised file llama.cpp reads half as much for each step, or less"
    else:
        # By what is computed with, where that was worked out: 16 bits in a file may be 32 in memory.
        read, less = vllm.size, llama.size
        if vllm.speed and llama.speed:
            read, less = vllm.speed.read, llama.speed.read
        yield f"{told}: each step reads {read / less:.1f} times what llama.cpp reads of {llama.quant}"


def _cpu_for(facts: Facts) -> Iterator[str]:
    if able(facts, "bf16") is True:
        flags = () if isinstance(facts.cpu.flags, Unknown) else facts.cpu.flags
        yield "this CPU multiplies bfloat16 itself" + (" (AMX)" if "amx_bf16" in flags else "")


def _many(wish: Placement) -> Iterator[str]:
    if wish.parallel >= MANY:
        yield f"{wish.parallel} requests at a time share each reading of the weights"


def _room(vllm: Choice, llama: Choice | None) -> Iterator[str]:
    if vllm.wish is not None and llama is not None and llama.wish is not None:
        yield f"it takes {gib(vllm.wish.memory)}, llama.cpp with {llama.quant} {gib(llama.wish.memory)}"


def _speeds(wish: Placement, vllm: Choice, llama: Choice | None) -> Iterator[str]:
    if vllm.wish and llama is not None and llama.wish and vllm.speed and llama.speed:
        which = "together" if wish.parallel > 1 else "of one request"
        yield (
            f"tokens a second {which}: {_range(vllm.speed.total)}, by llama.cpp with {llama.quant} "
            f"{_range(llama.speed.total)}"
        )


def _files_of(wish: Placement, vllm: Choice) -> Iterator[str]:
    if vllm.estimated and isinstance(wish.source, HuggingFace | ModelScope):
        yield f"it needs the repository of safetensors that {wish.source.repo} was made from"


def _range(told: Rate) -> str:
    return "–".join(f"{value:.0f}" if value >= 10 else f"{value:.1f}" for value in (told.low, told.high))


def best_by_llama(choices: Sequence[Choice]) -> Choice | None:
    """What vLLM is compared with: of what fits one of the usual bits, its own file before the largest."""
    fitting = [each for each in choices if each.wish] or list(choices[:1])
    return max(fitting, key=lambda each: (_is_usual(each), each.chosen, each.size), default=None)


def _is_usual(choice: Choice) -> bool:
    return USUAL_BITS[0] <= bits_of(choice.quant) <= USUAL_BITS[1]
