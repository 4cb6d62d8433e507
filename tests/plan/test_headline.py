"""One line that says what a host is."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.plan.headline import headline
from cpudeploy.types.base import Unknown
from cpudeploy.types.facts import Core, Facts
from tests.factories import facts

WHY = Unknown(unknown="no /proc")
HYBRID = tuple(Core(cpus=(cpu,), socket=0, node=0, speed=5000 if cpu < 2 else 3900) for cpu in range(6))


def with_cpu(**changes: object) -> Facts:
    base = facts()
    return msgspec.structs.replace(base, cpu=msgspec.structs.replace(base.cpu, **changes))


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (facts(), "Debian 12 · 4 cores · 12.0 of 16.0 GiB free · AVX2"),
        (facts(quota=1.5), "4 cores, quota 1.5 · "),
        (with_cpu(cores=HYBRID, usable=tuple(range(6))), "6 cores (2 fast) · "),
        (with_cpu(cores=WHY), "4 CPUs, cores unknown · "),
        (with_cpu(cores=WHY, usable=WHY), "cores unknown · "),
        (with_cpu(flags=("avx2", "avx512f")), "free · AVX2"),
        (with_cpu(flags=("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")), "free · AVX-512"),
        (with_cpu(flags=WHY), "GiB free"),
    ],
)
def test_what_matters_is_in_it(host: Facts, told: str) -> None:
    assert told in headline(host)
