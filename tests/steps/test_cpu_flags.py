"""A host whose CPU can't run the engine is told so before anything is fetched."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.context import HostContext
from cpudeploy.steps.cpu_flags import refuse_missing_flags
from cpudeploy.types.base import Unknown
from cpudeploy.types.playbook import CpuNeed, Playbook
from tests.factories import deployment, facts, playbooks

from .wishes import context_of

BACKEND = deployment().backends["llama"]


def needing(*needs: CpuNeed) -> Playbook:
    return msgspec.structs.replace(playbooks()["llama-cpp"], cpu=needs)


NEEDY = needing(CpuNeed(flags=("avx2", "avx512f", "amx_tile")))


def told(context: HostContext, playbook: Playbook) -> tuple[str, ...]:
    return refuse_missing_flags(context, BACKEND, playbook)


def with_flags(*flags: str, unknown: str = ""):
    cpu = msgspec.structs.replace(facts().cpu, flags=Unknown(unknown=unknown) if unknown else flags)
    return context_of(found=facts(cpu=cpu))


def test_a_cpu_with_every_flag_is_fine():
    assert told(with_flags("amx_tile", "avx2", "avx512f", "sse"), NEEDY) == ()


def test_a_playbook_without_needs_asks_nothing():
    assert told(with_flags(unknown="no /proc/cpuinfo"), playbooks()["llama-cpp"]) == ()


def test_what_is_missing_is_told_with_what_would_work():
    with pytest.raises(
        HostError, match=r"llama-cpp needs the CPU flags avx512f, amx_tile, .* Some CPU"
    ) as caught:
        told(with_flags("avx2"), NEEDY)
    assert caught.value.where == "one"
    assert "a host whose CPU has avx512f, amx_tile" in caught.value.do
    assert "hypervisor" not in caught.value.do


def test_in_a_virtual_machine_the_hypervisor_may_be_why():
    with pytest.raises(HostError) as caught:
        told(with_flags("avx2", "hypervisor"), NEEDY)
    assert "hypervisor" in caught.value.do


def test_flags_that_could_not_be_read_are_a_warning():
    (warning,) = told(with_flags(unknown="no /proc/cpuinfo"), NEEDY)
    assert "avx512f" in warning
    assert "no /proc/cpuinfo" in warning


def test_what_another_architecture_needs_is_no_need_here():
    assert told(with_flags("avx2"), needing(CpuNeed(arch="arm64", flags=("asimd",)))) == ()


@pytest.mark.parametrize(("version", "refused"), [("b8999", True), ("b9000", False), (None, False)])
def test_a_need_of_older_versions_ends_with_them(version: str | None, refused: bool):
    need = CpuNeed(flags=("avx512f",), when="image.version < 9000", do="take b9000")
    backend = msgspec.structs.replace(BACKEND, version=version, image="x.io/y:latest")
    if refused:
        with pytest.raises(HostError) as caught:
            refuse_missing_flags(with_flags("avx2"), backend, needing(need))
        assert caught.value.do == "take b9000"
    else:
        assert refuse_missing_flags(with_flags("avx2"), backend, needing(need)) == ()


def test_an_architecture_that_is_not_told_is_a_warning():
    os = msgspec.structs.replace(facts().os, arch=Unknown(unknown="nobody looked"))
    (warning,) = told(context_of(found=facts(os=os)), needing(CpuNeed(arch="arm64", flags=("asimd",))))
    assert "asimd on arm64" in warning
    assert "nobody looked" in warning
