"""Which weights llama.cpp's CPU backend keeps a second time, rearranged for the instructions there are. Pure.

The copy is anonymous memory beside the mapped file, which stays mapped. As of build 11434. Rows that don't
divide by the tiles are not copied; counting them all errs upwards by what no real model has.
"""

from __future__ import annotations

from collections.abc import Collection

from ...types.shape import Tensors

_BY_FLAG = {
    # x86
    "avx2": {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"},
    "avx512f": {"Q2_K"},
    "amx_int8": {"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "F16"},
    # ARM
    "asimddp": {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q1_0", "IQ4_NL", "MXFP4"},
    "i8mm": {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q1_0"},
}
"""The kernel's name of a CPU feature → types of matrices that are copied where it is there."""

_AMX_GROWTH = {"Q8_0": 38 / 34, "Q4_K": 148 / 144, "Q5_K": 180 / 176, "IQ4_XS": 138 / 136}
"""AMX tiles carry sums or unpacked scales beside the weights of these types."""


def repack_bytes(tensors: Tensors, flags: Collection[str] | None) -> int:
    """Bytes of the copies. flags: the CPU's as the kernel tells them; None: any of them may be there."""
    there = _BY_FLAG.keys() if flags is None else flags
    kinds = {kind for flag in there for kind in _BY_FLAG.get(flag, ())}
    growth = _AMX_GROWTH if "amx_int8" in there else {}
    return sum(int(size * growth.get(kind, 1)) for kind, size in tensors.matrices.items() if kind in kinds)
