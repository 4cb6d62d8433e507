"""A host whose CPU can't run the engine is told so before anything is fetched."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.cpu_flags import refuse_missing_flags
from cpudeploy.types.base import Unknown
from tests.factories import facts, playbooks

from .wishes import context_of

NEEDY = msgspec.structs.replace(playbooks()["llama-cpp"], cpu_flags=("avx2", "avx512f", "amx_tile"))


def with_flags(*flags: str, unknown: str = ""):
    cpu = msgspec.structs.replace(facts().cpu, flags=Unknown(unknown=unknown) if unknown else flags)
    return context_of(found=facts(cpu=cpu))


def test_a_cpu_with_every_flag_is_fine():
    assert refuse_missing_flags(with_flags("amx_tile", "avx2", "avx512f", "sse"), NEEDY) == ()


def test_a_playbook_without_needs_asks_nothing():
    assert refuse_missing_flags(with_flags(unknown="no /proc/cpuinfo"), playbooks()["llama-cpp"]) == ()


def test_what_is_missing_is_told_with_what_would_work():
    with pytest.raises(
        HostError, match=r"llama-cpp needs the CPU flags avx512f, amx_tile, .* Some CPU"
    ) as caught:
        refuse_missing_flags(with_flags("avx2"), NEEDY)
    assert caught.value.where == "one"
    assert "a host whose CPU has avx512f, amx_tile" in caught.value.do
    assert "hypervisor" not in caught.value.do


def test_in_a_virtual_machine_the_hypervisor_may_be_why():
    with pytest.raises(HostError) as caught:
        refuse_missing_flags(with_flags("avx2", "hypervisor"), NEEDY)
    assert "hypervisor" in caught.value.do


def test_flags_that_could_not_be_read_are_a_warning():
    (warning,) = refuse_missing_flags(with_flags(unknown="no /proc/cpuinfo"), NEEDY)
    assert "avx512f" in warning
    assert "no /proc/cpuinfo" in warning
