"""What a registry, a Hub or a secret does not give for one model keeps no other from being planned."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from tests.resolve.gguf_files import write_gguf
from tests.resolve.hubs import Repo, run_hub
from tests.resolve.registries import free_port, start_registry

from .test_commands import cpudeploy
from .test_hosts import HERE, gone

HERE_IS, OTHER = ("arm64", "amd64") if platform.machine() in ("aarch64", "arm64") else ("amd64", "arm64")
Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A registry and a Hub that have one image and one repository."""
    folder = tmp_path_factory.mktemp("outside")
    registry = start_registry(folder)
    try:
        registry.push("copies/llama", "server-b9000", [f"linux/{HERE_IS}"])
        registry.push("copies/other", "server-b9000", [f"linux/{OTHER}"])
        model = write_gguf(folder / "x.gguf").read_bytes()
        with run_hub({"org/name": Repo({"x-Q4_0.gguf": model})}) as hub:
            yield registry.address, hub.url
    finally:
        registry.stop()


def write(folder: Path, outside: tuple[str, str], *models: str) -> None:
    """An inventory with some of: `good`, and what lacks one thing each."""
    registry, hub = outside
    source = {"huggingface": "org/name", "quant": "Q4_0"}
    lacking: dict[str, dict[str, Any]] = {
        "good": {},
        "mistyped": {"source": {**source, "huggingface": "org/nmae"}},
        "keyless": {"api_key": {"from_env": "NO_SUCH_VARIABLE"}},
        "imageless": {"backend": "typo"},
        "foreign": {"backend": "other"},
    }
    manifest = {
        "version": 1,
        "name": "unplanned",
        "hosts": {"here": HERE},
        "mirrors": {
            "huggingface": hub,
            "images": [{"match": "registry.invalid/", "try": [f"http://{registry}/copies/"]}],
        },
        "backends": {
            "llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"},
            "other": {"playbook": "llama-cpp", "image": "registry.invalid/other:server-b9000"},
            "typo": {"playbook": "llama-cpp", "image": "registry.invalid/lama:server-b9000"},
        },
        "models": {
            name: {
                "source": source,
                "backend": "llama",
                "on": ["here"],
                "port": 18100 + number,
                "context": 512,
                "memory": "1GiB",
                "cpus": "shared",
                **lacking[name],
            }
            for number, name in enumerate(models)
        },
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    env = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HTTPS_PROXY": f"http://127.0.0.1:{free_port()}",
        "NO_PROXY": "127.0.0.1",
    }
    return lambda *arguments: cpudeploy(*arguments, cwd=tmp_path, **env)


def test_each_stands_in_the_plan_with_why_and_the_rest_is_planned(
    tmp_path: Path, run: Run, outside: tuple[str, str]
):
    write(tmp_path, outside, "good", "mistyped", "keyless", "imageless")
    done = run("plan", "--format", "json")
    assert done.returncode == 1, done.stderr
    host = json.loads(done.stdout)["hosts"]["here"]
    assert set(host["unplanned"]) == {"mistyped", "keyless", "imageless"}
    assert "huggingface org/nmae@main: " in host["unplanned"]["mistyped"]
    assert "NO_SUCH_VARIABLE is not set; do: " in host["unplanned"]["keyless"]
    assert "image registry.invalid/lama:server-b9000: no place has it: " in host["unplanned"]["imageless"]
    assert host["unknown"] == ""
    assert host["changes"]
    shown = run("plan")
    assert shown.returncode == 1
    assert "! keyless" in shown.stdout and "not planned: environment variable" in shown.stdout
    assert "3 models not planned" in shown.stdout.splitlines()[-1]


def test_without_them_the_plan_is_whole(tmp_path: Path, run: Run, outside: tuple[str, str]):
    write(tmp_path, outside, "good")
    assert run("plan").returncode == 0
    assert run("plan", "--detailed-exitcode").returncode == 2


def test_a_host_that_an_image_is_not_built_for_is_told_in_the_plan(
    tmp_path: Path, run: Run, outside: tuple[str, str]
):
    write(tmp_path, outside, "foreign")
    inventory = yaml.safe_load((tmp_path / "inventory.yaml").read_text())
    inventory["hosts"]["away"] = gone()
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(inventory))
    for command, code in (("plan", 4), ("apply", 3)):
        done = run(command)
        assert done.returncode == code, done.stdout + done.stderr
        assert (
            f"not planned: the image registry.invalid/other:server-b9000 is not built for linux/{HERE_IS}; "
            in (done.stdout)
        )
        assert f"it offers linux/{OTHER}; do: " in done.stdout


def test_where_nothing_can_be_had_apply_does_nothing_and_exits_1(
    tmp_path: Path, run: Run, outside: tuple[str, str]
):
    write(tmp_path, outside, "mistyped", "keyless", "imageless")
    shown = run("apply")
    assert shown.returncode == 1, shown.stderr
    assert "no place has it" in shown.stdout and "cpudeploy exits 1" in shown.stdout
    *_, outcome = map(json.loads, run("apply", "--format", "json").stdout.splitlines())
    assert outcome["exit_code"] == 1
    assert outcome["hosts"]["here"]["status"] == "unchanged"
    assert set(outcome["left_out"]["here"]) == {"mistyped", "keyless", "imageless"}


def test_a_saved_plan_says_that_they_are_not_in_it(tmp_path: Path, run: Run, outside: tuple[str, str]):
    write(tmp_path, outside, "mistyped", "keyless")
    done = run("plan", "-o", "plan.json")
    assert done.returncode == 1
    assert "here: note: what could not be planned is not in this plan" in done.stderr
    applied = run("apply", "plan.json")
    assert applied.returncode == 1, applied.stderr
    assert "not planned: " in applied.stdout


def test_numbers_are_explained_of_those_that_have_any(tmp_path: Path, run: Run, outside: tuple[str, str]):
    write(tmp_path, outside, "good", "mistyped")
    done = run("explain", "--format", "json")
    assert done.returncode == 1
    assert "mistyped not planned: huggingface org/nmae@main" in json.dumps(json.loads(done.stdout)["untold"])


def test_what_can_be_looked_up_is_advised_on(tmp_path: Path, run: Run, outside: tuple[str, str]):
    write(tmp_path, outside, "good", "mistyped")
    done = run("recommend", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["model"]: row for row in json.loads(done.stdout)["recommendations"]}
    assert rows["good"]["choices"]
    assert "huggingface org/nmae@main" in rows["mistyped"]["problem"]
    assert run("recommend", "mistyped").returncode == 1


def test_what_can_be_had_is_recorded(tmp_path: Path, run: Run, outside: tuple[str, str]):
    write(tmp_path, outside, "good", "mistyped", "keyless", "imageless")
    done = run("facts", "-o", "facts")
    assert done.returncode == 1
    assert done.stdout.split() == ["facts/here.json", "facts/resolved.json"]
    image, weights = sorted(done.stderr.splitlines())
    assert image.startswith("imageless: its image can't be recorded: image registry.invalid/lama:")
    assert weights.startswith("mistyped: its weights can't be recorded: huggingface org/nmae@main: ")
    read = run("plan", "--facts", "facts", "--format", "json")
    assert set(json.loads(read.stdout)["hosts"]["here"]["unplanned"]) == {"mistyped", "imageless"}


def test_a_key_that_is_missing_is_nothing_to_a_way_back(tmp_path: Path, run: Run, outside: tuple[str, str]):
    write(tmp_path, outside, "good", "keyless")
    done = run("rollback", "--dry-run")
    assert done.returncode == 1
    assert "not planned: " in done.stdout
    assert "NO_SUCH_VARIABLE" not in done.stdout + done.stderr
