"""The lab of real hosts, for every test that asks for it: started once a run, gone at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.lab.lab import TEST, Lab

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Registries, a Hub, and two bare hosts (`deb12`, `deb13`). CPUDEPLOY_KEEP_LAB leaves it up for the next run;
    CPUDEPLOY_TEST_LAB ("name subnet") is another than the usual one, for runs side by side."""
    lab = Lab(*os.environ.get("CPUDEPLOY_TEST_LAB", " ".join(TEST)).split())
    keep = bool(os.environ.get("CPUDEPLOY_KEEP_LAB"))
    if not keep:
        lab.down()
    lab.up()
    yield lab
    if not keep:
        lab.down()
