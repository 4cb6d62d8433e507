"""What a plan needs to know of the one who makes it, also where the system knows nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = 54321
"""A user id without an entry in the password database, as containers give them out."""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user id: needs root")
def test_a_user_that_the_system_does_not_know_has_a_name_and_no_cache():
    # Becomes nobody after the imports: the code may lie in folders that are closed to others.
    code = (
        "import os\nfrom pathlib import Path\nfrom cpudeploy.cli.deciding import cache_folder, origin_of\n"
        f"os.setuid({NOBODY})\nprint(cache_folder(), origin_of(Path('/inventory.yaml')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    cache, origin = done.stdout.split()
    assert cache == "None"
    assert origin.startswith(f"uid-{NOBODY}@")
