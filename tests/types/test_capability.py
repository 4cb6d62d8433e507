"""What processors can do, in the words of engines."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.types.base import Unknown
from cpudeploy.types.capability import ABILITIES, able
from cpudeploy.types.facts import Facts
from tests.factories import facts

WHY = Unknown(unknown="no /proc")
PHI = ("avx", "avx2", "fma", "avx512f", "avx512cd", "avx512er", "avx512pf")


def machine(arch: str | Unknown, flags: tuple[str, ...] | Unknown) -> Facts:
    base = facts()
    return msgspec.structs.replace(
        base,
        os=msgspec.structs.replace(base.os, arch=arch),
        cpu=msgspec.structs.replace(base.cpu, flags=flags),
    )


@pytest.mark.parametrize(
    ("arch", "flags", "can"),
    [
        ("amd64", ("avx", "f16c"), {"avx"}),
        ("amd64", ("avx", "avx2", "fma", "avx_vnni"), {"avx", "avx2", "fma", "avx_vnni"}),
        ("amd64", PHI, {"avx", "avx2", "fma", "avx512f"}),
        ("amd64", (*PHI, "avx512bw", "avx512dq", "avx512vl"), {"avx", "avx2", "fma", "avx512f", "avx512"}),
        ("amd64", ("amx_tile", "amx_bf16"), {"amx", "bf16"}),
        ("amd64", ("avx512_bf16",), {"bf16"}),
        ("arm64", ("asimd", "asimddp"), {"asimd", "asimddp"}),
        ("arm64", ("asimd", "sve", "svebf16", "i8mm"), {"asimd", "sve", "bf16", "i8mm"}),
        # Two architectures may use one word for two things.
        ("riscv64", ("avx2", "bf16"), set()),
    ],
)
def test_flags_become_abilities(arch: str, flags: tuple[str, ...], can: set[str]) -> None:
    told = {name: able(machine(arch, flags), name) for name in ABILITIES}
    assert {name for name, yes in told.items() if yes is True} == can
    assert {name for name, yes in told.items() if yes is False} == set(ABILITIES) - can


def test_unknown_flags_are_no_refusal_except_where_the_architecture_never_can() -> None:
    assert able(machine("amd64", WHY), "avx2") == WHY
    assert able(machine("ppc64le", WHY), "avx2") is False
    assert able(machine(WHY, WHY), "avx2") == WHY
    assert able(machine(WHY, ("avx2",)), "avx2") is True
