"""The past of hosts and the way back, where some can't be reached and on this one nothing was ever applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.resolve.web_server import Server

from .test_commands import cpudeploy
from .test_hosts import HERE, gone, outside, write

__all__ = ["outside"]


def test_history_tells_of_each_host_and_exits_4_for_one_that_is_gone(tmp_path: Path):
    write(tmp_path, {"here": HERE, "gone": gone()})
    done = cpudeploy("history", cwd=tmp_path)
    assert done.returncode == 4
    assert "nothing of rag was applied here" in done.stdout
    assert "unreachable" in done.stdout
    told = json.loads(cpudeploy("history", "--format", "json", cwd=tmp_path).stdout)
    unreachable = {host["host"]: bool(host["unreachable"]) for host in told["hosts"]}
    assert unreachable == {"here": False, "gone": True}


def test_where_there_is_no_way_back_it_says_so_and_asks_nobody_outside(tmp_path: Path, outside: Server):
    write(tmp_path, {"here": HERE}, outside.url)
    done = cpudeploy("rollback", "--dry-run", cwd=tmp_path)
    assert done.returncode == 1
    assert "not planned" in done.stdout
    assert cpudeploy("rollback", "7", cwd=tmp_path).returncode == 3
    assert not outside.requests


def test_an_empty_release_is_no_wish_to_go_back(tmp_path: Path) -> None:
    """As a script's variable that was never set."""
    done = cpudeploy("rollback", "", cwd=tmp_path)
    assert done.returncode == 64
    assert "the release to go back to is empty" in done.stderr


@pytest.mark.parametrize("command", ["plan", "prune --dry-run", "rollback --dry-run"])
def test_every_plan_that_is_printed_is_one_document_with_its_id(tmp_path: Path, command: str):
    write(tmp_path, {"gone": gone()})
    told = json.loads(cpudeploy(*command.split(), "--format", "json", cwd=tmp_path).stdout)
    assert told["schema"] == "cpudeploy.plan/1"
    assert len(told["id"]) == 64
