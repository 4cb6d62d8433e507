"""What processors can do, in the words engines use, from the flags that kernels print. Pure.

A kernel prints dozens of flags an architecture; engines ask for a handful of abilities. A level of the
x86-64 ABI is there only when all its parts are: Xeon Phi has avx512f and not the rest that builds for
AVX-512 use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .base import Unknown
from .facts import Facts

_X86: Final = frozenset({"amd64", "386"})
_ARM: Final = frozenset({"arm64", "arm"})

_Test = Callable[[frozenset[str]], bool]


def _all(*flags: str) -> _Test:
    return lambda have: have.issuperset(flags)


_ABILITIES: Final[dict[str, dict[frozenset[str], _Test]]] = {
    "avx": {_X86: _all("avx")},
    "avx2": {_X86: _all("avx2")},
    "fma": {_X86: _all("fma")},
    "avx512f": {_X86: _all("avx512f")},
    "avx512": {_X86: _all("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")},
    "avx512_vnni": {_X86: _all("avx512_vnni")},
    "avx_vnni": {_X86: _all("avx_vnni")},
    "amx": {_X86: _all("amx_tile")},
    "bf16": {
        _X86: lambda have: bool(have & {"avx512_bf16", "amx_bf16"}),
        _ARM: lambda have: bool(have & {"bf16", "svebf16"}),
    },
    "asimd": {_ARM: lambda have: bool(have & {"asimd", "neon"})},
    "asimddp": {_ARM: _all("asimddp")},
    "i8mm": {_ARM: _all("i8mm")},
    "sve": {_ARM: _all("sve")},
}
ABILITIES: Final = tuple(_ABILITIES)
"""Names of all abilities."""


def able(facts: Facts, ability: str) -> bool | Unknown:
    """Can every core of the host do that? Unknown where its flags are; no where its architecture never can.

    Raises KeyError for a name that is not in `ABILITIES`.
    """
    tests = _ABILITIES[ability]
    arch, flags = facts.os.arch, facts.cpu.flags
    if isinstance(arch, Unknown):
        return arch if isinstance(flags, Unknown) else any(test(frozenset(flags)) for test in tests.values())
    test = next((test for arches, test in tests.items() if arch in arches), None)
    if test is None:
        return False
    return flags if isinstance(flags, Unknown) else test(frozenset(flags))
