"""The engine's own settings once more, on the engine of Debian 12: 20.10."""

import pytest

from tests.acceptance.test_engine_settings import *  # noqa: F403

pytestmark = pytest.mark.lab
SUITE = "bookworm"
