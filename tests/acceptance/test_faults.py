"""A few upgrades broken in the middle: something always serves, one apply heals, nothing is there twice.

`make faults` does it at every boundary; here are a few that are always the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.site import bare_hosts
from tests.faults.bench import Bench
from tests.faults.cases import Case, sample
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOST = "faults12"


@pytest.fixture(scope="module")
def bench(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One host that serves the tiny model, with a steady client."""
    bare_hosts(lab, HostSpec(HOST, "bookworm", engine=True))
    bench = Bench(lab, HOST, tmp_path_factory.mktemp("faults"))
    bench.prepare()
    yield bench
    bench.close()
    lab.remove(HOST)


@pytest.mark.parametrize("case", sample(), ids=lambda case: case.name)
def test_one_apply_heals_what_was_broken(bench: Bench, case: Case):
    assert bench.run(case).wrong == []
