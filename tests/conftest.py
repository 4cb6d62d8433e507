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


SLOWEST = (
    "test_engine_settings",
    "test_faults",
    "test_engines",
    "test_held_host",
    "test_failures",
    "test_hosts",
)
"""Files of the lab whose tests begin first, so that no worker has to wait for another at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A lab file's tests share hosts, so they stay in one worker; those with hosts of their own say so
    by a group of their own."""
    for item in items:
        if item.get_closest_marker("lab") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))


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
