"""Recorded facts that somebody edited: refused with the file and the part, or planned with; never a crash."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.cli.records import read_facts, read_records
from cpudeploy.errors import RecordError
from cpudeploy.types.base import to_json
from tests.factories import container, facts, network

SHIPPED = Path(__file__).parents[2] / "inventories" / "facts"


def written(folder: Path, *path: str | int, value: Any) -> Path:
    """The facts of a host `one` with what stands at `path` replaced."""
    found = facts(
        containers={"other": container("x")}, networks={"n": network("n")}, releases={"rag": {"1": {}}}
    )
    data = json.loads(to_json(found))
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (folder / "one.json").write_text(json.dumps(data))
    return folder


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("memory", "total"), -1, "memory.total"),
        (("memory", "nodes", 0, "memory"), -5, "memory.nodes"),
        (("memory", "bandwidth"), -1, "memory.bandwidth"),
        (("cpu", "cores", 1, "cpus", 0), -1, "cpu.cores"),
        (("cpu", "cores", 1, "cpus", 0), 1 << 64, "cpu.cores"),
        (("cpu", "cores", 1, "cpus", 0), 0, "CPU 0"),
        (("cpu", "cores", 1, "cpus"), [], "cpu.cores"),
        (("cpu", "cores"), [], "cpu.cores"),
        (("cpu", "quota"), -0.5, "cpu.quota"),
        (("disks", "/var/lib/docker", "free"), -1, "disks"),
        (("ports", 0, "port"), 70000, "ports"),
        (("addresses", 1), "x", "addresses"),
        ("interfaces", {"eth0": ["10.0.0.0/8"]}, "addresses"),
        (("routes", 0), "10.0.0.0/99", "routes"),
        (("networks", "n", "subnets", 0), "x", "subnets"),
        (("containers", "other", "cpuset"), "3-0", "container other"),
        (("containers", "other", "cpuset_mems"), "2026-99-99", "container other"),
        (("containers", "other", "memory"), -1, "memory"),
        (("releases", "rag"), [], "releases"),
    ],
)
def test_what_no_machine_has_is_refused_by_name(
    tmp_path: Path, path: tuple[str | int, ...] | str, value: Any, says: str
):
    with pytest.raises(RecordError) as caught:
        read_facts(written(tmp_path, *([path] if isinstance(path, str) else path), value=value), "one")
    assert caught.value.where == str(tmp_path / "one.json")
    assert says in caught.value.what
    assert caught.value.do


@pytest.mark.parametrize("text", ['{"host": "\\ud800"}', '{"clock": NaN}', "[" * 100_000, "", "\xff"])
def test_what_is_no_json_is_damaged(tmp_path: Path, text: str):
    (tmp_path / "one.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError, match="is damaged"):
        read_facts(tmp_path, "one")


@pytest.mark.parametrize("kind", ["a pipe", "endless", "a folder", "itself"])
def test_what_is_no_file_is_neither_waited_for_nor_read_for_ever(tmp_path: Path, kind: str):
    path = tmp_path / "one.json"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else path)
    with pytest.raises(RecordError) as caught:
        read_facts(tmp_path, "one")
    assert caught.value.where == str(path)


def test_a_file_larger_than_any_record_is_refused(tmp_path: Path):
    with (tmp_path / "one.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RecordError, match="larger"):
        read_facts(tmp_path, "one")


@pytest.mark.parametrize("part", ["layers", "vocabulary", "context_length"])
def test_a_model_of_less_than_nothing_is_refused(tmp_path: Path, part: str):
    records = json.loads((SHIPPED / "resolved.json").read_text())
    records["weights"][0]["told"]["shape"][part] = -1
    (tmp_path / "resolved.json").write_text(json.dumps(records))
    with pytest.raises(RecordError, match=part):
        read_records(tmp_path)
