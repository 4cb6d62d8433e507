"""Facts recorded by one command and planned from by another, without anybody being asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.resolve.gguf_files import write_gguf
from tests.resolve.hubs import Repo, run_hub
from tests.resolve.registries import free_port, start_registry

from .test_commands import cpudeploy
from .test_hosts import gone

KEY = "a-key-nobody-may-write-down"


@dataclass
class Recorded:
    """A folder with an inventory, recorded into `facts` while the world outside still answered."""

    folder: Path
    recording: str
    live: dict[str, Any]

    def plan(self, *arguments: str, facts: str = "facts", **env: str) -> Any:
        return cpudeploy("plan", "--facts", facts, *arguments, cwd=self.folder, **env)

    def data(self, *arguments: str) -> dict[str, Any]:
        done = self.plan("--format", "json", *arguments)
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan


def with_engine(recorded: Recorded, folder: Path) -> None:
    """The records in `folder` as if this machine had an engine that runs."""
    folder.mkdir()
    for file in (recorded.folder / "facts").iterdir():
        data = json.loads(file.read_text())
        if file.name == "here.json":
            data["engine"]["state"] = "running"
        (folder / file.name).write_text(json.dumps(data))


def write(folder: Path, registry: str, hub: str, **hosts: Any) -> None:
    model = {
        "source": {"huggingface": "org/name", "quant": "Q4_0"},
        "backend": "llama",
        "on": list(hosts),
        "port": free_port(),
        "context": 512,
        "memory": "1GiB",
        "api_key": {"from_env": "RECORDED_KEY"},
    }
    manifest = {
        "version": 1,
        "name": "recorded",
        "hosts": hosts,
        "mirrors": {
            "huggingface": hub,
            "images": [{"match": "registry.invalid/", "try": [f"http://{registry}/copies/"]}],
        },
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {"m": model},
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    registry = start_registry(tmp_path_factory.mktemp("registry"))
    try:
        registry.push("copies/llama", "server-b9000")
        model = write_gguf(folder / "x.gguf").read_bytes()
        with run_hub({"org/name": Repo({"x-Q4_0.gguf": model})}) as hub:
            write(folder, registry.address, hub.url, here={"connection": "local"})
            env = {
                "XDG_CACHE_HOME": str(folder / "cache"),
                "HTTPS_PROXY": f"http://127.0.0.1:{free_port()}",
                "NO_PROXY": "127.0.0.1",
                "RECORDED_KEY": KEY,
            }
            done = cpudeploy("facts", "-o", "facts", cwd=folder, **env)
            assert (done.returncode, done.stderr) == (0, "")
            live = cpudeploy("plan", "--format", "json", cwd=folder, **env)
            assert live.returncode == 0, live.stderr
    finally:
        registry.stop()
    yield Recorded(folder, done.stdout, json.loads(live.stdout))


def test_what_was_recorded_is_named_readable_and_without_a_secret(recorded: Recorded):
    assert recorded.recording.split() == ["facts/here.json", "facts/resolved.json"]
    files = sorted((recorded.folder / "facts").iterdir())
    assert [file.name for file in files] == ["here.json", "resolved.json"]
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o644
        assert KEY not in file.read_text()


def test_the_plan_is_the_one_that_asking_gave(recorded: Recorded):
    plan = recorded.data()
    assert plan["recorded"] == "facts"
    for part in ("changes", "allocations"):
        assert plan["hosts"]["here"][part] == recorded.live["hosts"]["here"][part]
    assert plan["hosts"]["here"]["changes"]


def test_it_is_said_to_be_a_plan_of_records(recorded: Recorded):
    done = recorded.plan()
    assert done.returncode == 0
    assert "from recorded facts of facts; not applicable" in done.stdout.splitlines()[0]
    assert "whether an API key changed is not known" in done.stdout
    assert "not applicable" in recorded.plan("--format", "markdown").stdout


def test_exit_codes_are_those_of_any_plan(recorded: Recorded):
    assert recorded.plan("--detailed-exitcode").returncode == 2


def test_a_host_without_a_record_is_named_and_the_others_are_planned(recorded: Recorded, tmp_path: Path):
    write(tmp_path, "127.0.0.1:1", "http://hub.invalid", here={"connection": "local"}, away=gone())
    done = cpudeploy("plan", "--facts", str(recorded.folder / "facts"), "--format", "json", cwd=tmp_path)
    plan = json.loads(done.stdout)
    assert done.returncode == 1
    assert "no facts of it are recorded" in plan["hosts"]["away"]["unknown"]
    assert plan["hosts"]["here"]["changes"]
    limited = cpudeploy("plan", "--facts", str(recorded.folder / "facts"), "--limit", "here", cwd=tmp_path)
    assert limited.returncode == 0


def test_a_model_without_a_record_is_named_and_nothing_of_it_is_planned(recorded: Recorded, tmp_path: Path):
    inventory = yaml.safe_load((recorded.folder / "inventory.yaml").read_text())
    inventory["models"]["other"] = {**inventory["models"]["m"], "port": free_port()}
    inventory["models"]["other"]["source"] = {"huggingface": "org/else"}
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(inventory))
    with_engine(recorded, tmp_path / "facts")
    done = cpudeploy("plan", "--facts", "facts", "--format", "json", cwd=tmp_path)
    host = json.loads(done.stdout)["hosts"]["here"]
    assert done.returncode == 1
    assert host["unplanned"] == {
        "other": "nothing is recorded of its source; do: record it with `cpudeploy facts -o DIR`"
    }
    assert {change["subject"] for change in host["changes"] if change["step"] == "container"} == {"m"}


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("here.json", "cpudeploy.facts/1", "cpudeploy.facts/2", "written by a newer cpudeploy"),
        ("resolved.json", "cpudeploy.resolved/1", "cpudeploy.resolved/12", "written by a newer cpudeploy"),
        ("here.json", '"root":', '"rooot":', "is damaged"),
        ("resolved.json", "{", "[", "is damaged"),
        ("here.json", '"host": "here"', '"host": "other"', "the facts of host other, not of here"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error_with_its_name(
    recorded: Recorded, tmp_path: Path, name: str, old: str, new: str, says: str
):
    for file in (recorded.folder / "facts").iterdir():
        text = file.read_text()
        assert old in text or file.name != name
        (tmp_path / file.name).write_text(text.replace(old, new, 1) if file.name == name else text)
    done = recorded.plan(facts=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"{tmp_path / name}: " in done.stderr
    assert says in done.stderr
    assert done.stderr.splitlines()[-1].split()[0] == "do"


def test_recording_again_keeps_what_others_recorded_in_the_same_folder(recorded: Recorded, tmp_path: Path):
    """Another manifest without models: nothing is asked, and nothing of the first is lost."""
    facts = tmp_path / "facts"
    facts.mkdir()
    for file in (recorded.folder / "facts").iterdir():
        (facts / file.name).write_text(file.read_text())
    manifest = {"version": 1, "name": "second", "hosts": {"mine": {"connection": "local"}}}
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(manifest))
    assert cpudeploy("facts", "-o", "facts", cwd=tmp_path).returncode == 0
    assert sorted(file.name for file in facts.iterdir()) == ["here.json", "mine.json", "resolved.json"]
    assert recorded.plan(facts=str(facts)).returncode == 0


def test_facts_are_kept_when_nobody_outside_answers(tmp_path: Path):
    dead = f"127.0.0.1:{free_port()}"
    write(tmp_path, dead, f"http://{dead}", here={"connection": "local"}, away=gone())
    env = {
        "HTTPS_PROXY": f"http://{dead}",
        "NO_PROXY": "127.0.0.1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = cpudeploy("facts", "-o", "facts", cwd=tmp_path, **env)
    assert done.returncode == 4
    assert done.stdout.split() == ["facts/here.json"]
    assert "m: its image and weights can't be recorded: image registry.invalid/llama:" in done.stderr
    assert "away: unreachable" in done.stderr


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    manifest = {"version": 1, "name": "x", "hosts": {"here": {"connection": "local"}}}
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(manifest))
    done = cpudeploy("facts", "-o", "file/facts", cwd=tmp_path)
    assert done.returncode == 1
    assert "file/facts/here.json: can't be written" in done.stderr


def test_asking_for_a_password_makes_no_sense_with_records(recorded: Recorded):
    done = recorded.plan("--ask-sudo-pass")
    assert done.returncode == 64
    assert "--facts" in done.stderr
