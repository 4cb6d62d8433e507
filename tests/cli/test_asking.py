"""The question before something is taken away, to somebody at a terminal and to nobody."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
from cpudeploy.cli.asking import agree
from cpudeploy.errors import CpudeployError
try:
    agree("Remove this?", command="prune")
    print("agreed")
except CpudeployError as error:
    print(error.code, error)
"""


def asked(stdin: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, stdin=stdin, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("y", "agreed"),
        ("n", "1 nothing was changed: you said no"),
        ("", "1 nothing was changed: you said no"),
    ],
)
def test_only_a_yes_is_one(answer: str, told: str):
    master, slave = pty.openpty()
    try:
        os.write(master, f"{answer}\n".encode())
        done = asked(slave)
    finally:
        os.close(master)
        os.close(slave)
    assert done.stdout.strip() == told
    assert "Remove this? [y/N]" in done.stderr


def test_where_nobody_can_be_asked_the_way_on_is_told():
    done = asked(subprocess.DEVNULL)
    assert done.stdout.startswith("64 prune needs --yes where nobody can be asked")
    assert "prune --yes" in done.stdout
