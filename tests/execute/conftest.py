"""Shared by the tests of this room."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Wait until something is so; fails the test when it never is."""

    def wait(so: Callable[[], bool]) -> None:
        give_up = time.monotonic() + 30
        while not so():
            assert time.monotonic() < give_up, "waited in vain"
            time.sleep(0.02)

    return wait
