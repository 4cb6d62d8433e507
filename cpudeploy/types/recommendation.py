"""What a host could run of a model, how fast, and what is advised. Built by `sizing/`, shown by `report/`."""

from __future__ import annotations

from typing import Literal

from .base import Struct


class Rate(Struct, frozen=True, kw_only=True):
    """Tokens a second: what to count on, and what not to exceed."""

    low: float
    high: float


class Speed(Struct, frozen=True, kw_only=True):
    """Decoding. read: bytes of weights for one token; one: a single request, low with a full context;
    total: all slots together. limit: what holds back the faster end.
    """

    read: int
    one: Rate
    total: Rate
    limit: Literal["memory", "cores", "steps"]


class Combination(Struct, frozen=True, kw_only=True):
    """Tokens a request × requests at a time, and the container's limit in bytes that they take."""

    context: int
    parallel: int
    memory: int


class Choice(Struct, frozen=True, kw_only=True):
    """One quantisation of a model on one host, beside all else that is placed there.

    size: bytes of its files. chosen: what the manifest says now. estimated: nobody read its header, so its
    numbers are the chosen one's by size. wish: what the manifest asks for, None where that does not fit,
    `why` then being the refusal. largest: the combinations tried that fit and of which none larger in both
    fits. speed: at the wish, or where that does not fit at the first of `largest`; None: not known, or
    nothing fits. backend: of the manifest; another than the model's own is the same model by the other
    engine, from files of another repository.
    """

    backend: str = ""
    quant: str
    size: int
    chosen: bool = False
    estimated: bool = False
    wish: Combination | None = None
    why: str = ""
    largest: tuple[Combination, ...] = ()
    speed: Speed | None = None


class EngineAdvice(Struct, frozen=True, kw_only=True):
    """Whether vLLM is worth trying for this wish on this host, instead of llama.cpp or as the manifest says.

    backend: its name in the manifest. verdict: `poor`: something speaks against it; `may win`: measure it;
    `open`: nothing speaks clearly either way. reasons: a clause each, with this host's numbers.
    """

    backend: str
    verdict: Literal["poor", "open", "may win"]
    reasons: tuple[str, ...]


class Advice(Struct, frozen=True, kw_only=True):
    """What to write. lines: of the manifest, below the model's `name`; none where it already says so."""

    name: str
    quant: str
    context: int
    parallel: int
    why: str
    lines: tuple[str, ...] = ()


class Recommendation(Struct, frozen=True, kw_only=True):
    """One model on one host. context, parallel: the wish. threads: 0 where nothing fits. bandwidth: bytes a
    second the host's cores read together, None: not measured. engine: of vLLM against llama.cpp, None where
    the manifest has no backend of vLLM. problem: why there are no choices, or empty.
    """

    model: str
    host: str
    context: int = 0
    parallel: int = 0
    threads: int = 0
    bandwidth: int | None = None
    choices: tuple[Choice, ...] = ()
    advice: Advice | None = None
    engine: EngineAdvice | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""
