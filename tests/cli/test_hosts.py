"""Commands that meet hosts: one is this machine, others can't be reached or can't be asked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.resolve.registries import free_port
from tests.resolve.web_server import Reply, Request, Server, serve
from tests.transport.conftest import Sshd, User

from .test_commands import ROOT, cpudeploy

HERE = {"connection": "local"}


def gone() -> dict[str, Any]:
    """A host that nobody answers for."""
    return {"address": "127.0.0.1", "ssh": {"port": free_port()}}


@pytest.fixture
def outside() -> Iterator[Server]:
    """Stands for registries and Hubs, and remembers whether it was asked."""

    def answer(_: Request) -> Reply:
        return Reply(404)

    with serve(answer) as server:
        yield server


def write(folder: Path, hosts: dict[str, Any], outside: str = "http://hub.invalid") -> None:
    manifest = {
        "version": 1,
        "name": "rag",
        "hosts": hosts,
        "mirrors": {
            "huggingface": outside,
            "images": [{"match": "registry.invalid/", "try": [f"{outside}/"]}],
        },
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {
            "m": {"source": {"huggingface": "org/name"}, "backend": "llama", "on": list(hosts), "port": 8100}
        },
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))


def test_a_host_that_lets_us_wait_is_named_while_it_does(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        write(tmp_path, {"here": HERE, "mute": {"address": "127.0.0.1", "ssh": {"port": port}}})
        command = [sys.executable, "-m", "cpudeploy", "facts"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as asking:
            assert asking.stderr is not None
            first = asking.stderr.readline()
            asking.terminate()
    assert first.startswith("still asking ")
    assert "mute" in first


def test_facts_tell_every_host_and_why_one_has_none(tmp_path: Path):
    write(tmp_path, {"here": HERE, "away": gone()})
    done = cpudeploy("facts", "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["here"]["os"]["kernel"]
    assert "refused" in found["away"]["unreachable"]
    assert "away: unreachable" in done.stderr
    assert done.returncode == 4


def test_status_has_a_row_for_a_host_that_is_not_reached(tmp_path: Path):
    write(tmp_path, {"away": gone(), "here": HERE})
    done = cpudeploy("status", "--format", "json", cwd=tmp_path)
    rows = {row["host"]: row for row in json.loads(done.stdout)["instances"]}
    assert (rows["away"]["state"], rows["away"]["model"]) == ("unreachable", "")
    assert (rows["here"]["state"] != "unreachable", rows["here"]["model"]) == (True, "m")
    assert done.returncode == 4


def test_a_host_that_tells_nothing_keeps_no_other_from_being_asked(
    tmp_path: Path, sshd: Sshd, make_user: Callable[..., User]
):
    """Its sudo password is nowhere: no trouble of the network, so it is exit code 1 that it calls for."""
    user = make_user(sudo="{user} ALL=(ALL) ALL", password="not told")
    mute = {
        "address": "127.0.0.1",
        "ssh": {"port": sshd.port, "user": user.name, "config": str(sshd.config())},
        "sudo": {"password": {"from_env": "NO_SUCH_VARIABLE"}},
    }
    for hosts, code in (({"mute": mute, "here": HERE}, 1), ({"mute": mute, "away": gone()}, 4)):
        write(tmp_path, hosts)
        for command in ("facts", "status"):
            done = cpudeploy(command, "--format", "json", cwd=tmp_path)
            assert done.returncode == code, done.stderr
            assert "NO_SUCH_VARIABLE is not set" in done.stdout
            assert all(name in done.stdout for name in hosts)
    write(tmp_path, {"mute": mute})
    for command in ("plan", "facts", "status"):
        done = cpudeploy(command, cwd=tmp_path)
        assert done.returncode == 1
        assert "NO_SUCH_VARIABLE is not set" in done.stdout + done.stderr


def test_nothing_outside_is_asked_for_hosts_that_are_not_reached(tmp_path: Path, outside: Server):
    write(tmp_path, {"away": gone()}, outside.url)
    for command in ("plan", "apply"):
        done = cpudeploy(command, cwd=tmp_path)
        assert done.returncode == 4, done.stderr
        assert "refused" in done.stdout
    assert not outside.requests


def test_applying_as_json_is_lines_of_events_and_one_outcome(tmp_path: Path):
    write(tmp_path, {"away": gone(), "other": gone()})
    done = cpudeploy("apply", "--format", "json", cwd=tmp_path)
    *events, outcome = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["event"] for event in events} == {"host_started", "host_finished"}
    assert outcome["schema"] == "cpudeploy.outcome/1"
    assert (outcome["exit_code"], outcome["hosts"]["away"]["exit_code"], outcome["endpoints"]) == (4, 4, [])
    assert done.returncode == 4


def test_a_model_is_asked_for_on_its_own_hosts_only(tmp_path: Path):
    write(tmp_path, {"here": HERE})
    manifest = yaml.safe_load((tmp_path / "inventory.yaml").read_text())
    manifest["hosts"]["away"] = gone()
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(manifest))
    done = cpudeploy("logs", "m", cwd=tmp_path)
    assert (done.returncode, "here: error: m is not there" in done.stderr) == (1, True)
    assert "away" not in done.stderr


@pytest.mark.parametrize("command", [["logs", "m"], ["chat", "m", "hello"]])
def test_a_model_whose_hosts_are_away_is_unreachable(tmp_path: Path, command: list[str]):
    write(tmp_path, {"away": gone()})
    done = cpudeploy(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "away: unreachable" in done.stderr


@pytest.mark.parametrize("command", [["logs", "x"], ["chat", "x", "hello"]])
def test_a_model_that_is_not_in_the_manifest_is_a_usage_error(tmp_path: Path, command: list[str]):
    write(tmp_path, {"away": gone()})
    done = cpudeploy(*command, cwd=tmp_path)
    assert done.returncode == 64
    assert "choose from: m" in done.stderr


def unread(*arguments: str, cwd: Path) -> tuple[int, str]:
    """Exit code and stderr of a command whose output nobody reads."""
    read, write_end = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "cpudeploy", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(write_end)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["validate"], ["facts"], ["status", "--format", "json"]])
def test_output_that_nobody_reads_is_no_error(tmp_path: Path, arguments: list[str]):
    write(tmp_path, {"here": HERE})
    assert unread(*arguments, cwd=tmp_path) == (0, "")


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_apply_that_nobody_watches_ends_with_its_own_exit_code(tmp_path: Path, form: str):
    write(tmp_path, {"away": gone()})
    assert unread("apply", "--format", form, cwd=tmp_path) == (4, "")


def test_a_closed_stdout_is_no_error(tmp_path: Path):
    write(tmp_path, {"here": HERE})
    command = f"{sys.executable} -m cpudeploy validate >&-"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_the_terminal_has_no_signs_for_is_escaped(tmp_path: Path):
    write(tmp_path, {"here": HERE})
    done = cpudeploy("facts", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert " - " in done.stdout


def test_without_an_ssh_client_that_is_said_once_for_all_hosts(tmp_path: Path, sshd: Sshd):
    folder = tmp_path / ".ssh"
    folder.mkdir()
    (folder / "id_ed25519").write_text(sshd.key.read_text())
    known = (sshd.folder / "known_hosts").read_text()
    (folder / "known_hosts").write_text(known + known.replace("127.0.0.1", "localhost"))
    ssh = {"port": sshd.port, "user": "root"}
    hosts = {"one": "127.0.0.1", "two": "localhost"}
    write(tmp_path, {name: {"address": address, "ssh": ssh} for name, address in hosts.items()})
    (tmp_path / "programs").mkdir()
    done = cpudeploy(
        "facts", "--format", "json", cwd=tmp_path, HOME=str(tmp_path), PATH=str(tmp_path / "programs")
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no ssh client") == 1
    assert json.loads(done.stdout).keys() == {"one", "two"}
