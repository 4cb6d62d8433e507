"""What a quantisation's name tells of a file nobody has read: its bits, and what its tensors may be. Pure."""

from __future__ import annotations

import re

import msgspec

from ..types.shape import Tensors, Variant

_BITS = re.compile(r"I?Q(\d)|(?:MX|NV)FP(4)|B?F(16|32)|FP(16|32)")
_DYNAMIC = re.compile(r"UD[-_]")
"""A publisher's mark of a mixture made for one model; what follows is the usual name."""

USUAL_BITS = (4, 8)
"""Bits a weight below which answers suffer, and above which they hardly gain while every token reads more."""

_PLAIN = ("F32", "F16", "BF16", "Q8_0")
"""Quantisations whose matrices are all of one type; others mix, each publisher in another way."""

_REPACKED = "Q4_0"
"""The type that every CPU's kernels rearrange: the worst case for a file whose matrices are not known."""


def bits_of(quant: str) -> int:
    """Bits a weight, as a quantisation's name tells (`UD-Q4_K_XL` → 4); 0 where it does not."""
    found = _BITS.match(_usual(quant))
    return 0 if found is None else int(next(filter(None, found.groups())))


def tensors_of(tensors: Tensors, variant: Variant) -> tuple[Tensors, ...]:
    """Another quantisation's tensors as they may turn out to be, from those of the one that was read: nobody
    read its matrices' types, and with them what is kept twice. The first is what its name says."""
    kind = _kind(variant.quant)
    kinds = (kind,) if _usual(variant.quant) in _PLAIN else (kind, _REPACKED)
    share = variant.size / tensors.size if tensors.size else 1.0
    return tuple(
        msgspec.structs.replace(
            tensors,
            size=variant.size,
            matrices={each: variant.size},
            experts=int(tensors.experts * share),
        )
        for each in kinds
    )


def _usual(quant: str) -> str:
    return _DYNAMIC.sub("", quant.upper(), count=1)


def _kind(quant: str) -> str:
    """The type that most matrices of such a file have: `Q4_K_M` → `Q4_K`."""
    usual = _usual(quant)
    if usual.startswith("Q8_"):
        return "Q8_0"  # matrices are not stored as Q8_K: the name stands for the finest mixture
    family = re.match(r"Q\d_K(?=_|$)|MXFP4", usual)
    return family[0] if family else usual
