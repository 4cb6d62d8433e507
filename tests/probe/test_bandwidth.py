"""Memory bandwidth is measured for real on this machine, with either interpreter, or said not to be."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.probe import probe
from cpudeploy.probe.bandwidth import measure_bandwidth, script
from cpudeploy.secrets import Secrets
from cpudeploy.transport import connect
from cpudeploy.types.base import Unknown
from cpudeploy.types.deployment import Host, Ssh

ONE = str(min(os.sched_getaffinity(0)))
PLAUSIBLE = range(10**8, 10**14)
"""From what a slow board under load reads to beyond any machine there is."""


def run(
    folder: Path, *programs: str, cpus: str = ONE, spare: int = 4 << 30
) -> subprocess.CompletedProcess[str]:
    """The script where there are only `programs` beside the shell and tr."""
    for name in ("sh", "tr", *programs):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not on this machine")
        (folder / name).write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec {found} "$@"\n')
        (folder / name).chmod(0o755)
    return subprocess.run(
        ["/bin/sh"],
        input=f"cpus={cpus} spare={spare}\n{script()}",
        env={"PATH": str(folder), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("interpreter", ["python3", "perl"])
def test_either_interpreter_tells_bytes_a_second_and_nothing_else(tmp_path: Path, interpreter: str):
    done = run(tmp_path, interpreter)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) in PLAUSIBLE


@pytest.mark.skipif(Path("/usr/libexec/platform-python").exists(), reason="this machine has another python")
def test_without_an_interpreter_it_is_said_and_nothing_told(tmp_path: Path):
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "neither python3 nor perl" in done.stderr


def test_memory_that_is_not_free_is_not_taken(tmp_path: Path):
    done = run(tmp_path, "python3", spare=1 << 20)
    assert (done.returncode, done.stdout) == (1, "")
    assert "MiB of free memory, there are 1" in done.stderr


def test_a_processor_that_is_not_there_is_no_reason_to_fail(tmp_path: Path):
    """It was taken from us since the facts were read: the reader runs elsewhere."""
    assert int(run(tmp_path, "python3", cpus=f"{ONE},9999").stdout) in PLAUSIBLE


def test_a_host_is_measured_by_its_facts():
    host = Host(name="here", connection="local", ssh=Ssh(address="here"))
    connection = connect(host, Secrets(Path("/")))
    facts = probe(connection)
    assert measure_bandwidth(connection, facts) in PLAUSIBLE
    full = msgspec.structs.replace(facts.memory, available=Unknown(unknown="not told"))
    with pytest.raises(HostError, match="free memory"):
        measure_bandwidth(connection, msgspec.structs.replace(facts, memory=full))
