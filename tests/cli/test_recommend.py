"""`cpudeploy recommend` as a user meets it: this machine as the host, a Hub on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cpudeploy.cli.records import write_records
from cpudeploy.types.deployment import HuggingFace
from cpudeploy.types.records import RecordedWeights, Records
from tests.factories import placement, resolved, tensors
from tests.resolve.folders import folder
from tests.resolve.gguf_files import write_gguf
from tests.resolve.hubs import Repo, RunningHub, run_hub

from .test_commands import cpudeploy
from .test_hosts import HERE, gone

QUANTS = ("Q4_K_M", "Q8_0")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    data = write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf").read_bytes()
    files = {f"m-{quant}.gguf": data + b"\0" * number for number, quant in enumerate(QUANTS)}
    repos = {"org/m-GGUF": files, "org/new-GGUF": files, "org/new": folder()}
    with run_hub({name: Repo(files=each) for name, each in repos.items()}) as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, hub: RunningHub) -> Path:
    return write(tmp_path, hub, {"here": HERE})


def write(folder: Path, hub: RunningHub, hosts: dict[str, Any], **model: Any) -> Path:
    wish = {
        "source": {"huggingface": "org/m-GGUF", "quant": "Q4_K_M"},
        "backend": "llama",
        "on": list(hosts),
        "port": 8100,
        "context": 2048,
        **model,
    }
    manifest = {
        "version": 1,
        "name": "rag",
        "hosts": hosts,
        "mirrors": {"huggingface": hub.url},
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {"m": wish},
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))
    return folder


def run(site: Path, *arguments: str) -> Any:
    return cpudeploy("recommend", *arguments, cwd=site, XDG_CACHE_HOME=str(site / "cache"), COLUMNS="80")


def told(site: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run(site, *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["deployment"]) == ("cpudeploy.recommend/1", "rag")
    found: list[dict[str, Any]] = document["recommendations"]
    return found


def test_every_quantisation_has_a_row_and_no_registry_is_asked(site: Path):
    done = run(site)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(quant in done.stdout for quant in QUANTS)
    assert "advised" in done.stdout and "--measure" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_same_as_data(site: Path):
    (only,) = told(site)
    assert (only["model"], only["host"], only["context"], only["parallel"]) == ("m", "here", 2048, 1)
    assert [choice["quant"] for choice in only["choices"]] == list(QUANTS)
    assert only["advice"]["quant"] == "Q4_K_M"
    assert "bandwidth" not in only or only["bandwidth"] is None


def test_what_is_asked_for_takes_the_place_of_what_the_manifest_says(site: Path):
    (only,) = told(site, "m", "--context", "1024", "--parallel", "3", "--quant", "Q8_0")
    assert (only["context"], only["parallel"]) == (1024, 3)
    assert [choice["quant"] for choice in only["choices"] if choice.get("chosen")] == ["Q8_0"]
    assert {"context: 1024", "parallel: 3"} < set(only["advice"]["lines"])


def test_a_measured_host_tells_its_bandwidth_and_facts_keep_it(site: Path):
    (only,) = told(site, "--measure")
    assert only["bandwidth"] > 10**8
    done = cpudeploy("facts", "--measure", "--format", "json", cwd=site)
    assert json.loads(done.stdout)["here"]["memory"]["bandwidth"] > 10**8


def test_a_repository_that_is_not_in_the_manifest_is_tried_beside_what_is(site: Path):
    (only,) = told(site, "org/new-GGUF", "--context", "1024")
    assert only["model"] == "org/new-GGUF"
    lines = only["advice"]["lines"]
    assert "source: {huggingface: org/new-GGUF, quant: Q4_K_M}" in lines
    assert "port: 8101" in lines


def with_vllm(site: Path) -> Path:
    inventory = site / "inventory.yaml"
    manifest = yaml.safe_load(inventory.read_text())
    manifest["backends"]["vllm"] = {"playbook": "vllm-cpu", "image": "registry.invalid/vllm:v0.32.0"}
    inventory.write_text(yaml.safe_dump(manifest))
    return site


def test_a_repository_of_safetensors_is_tried_by_vllm_and_compared(site: Path):
    (only,) = told(with_vllm(site), "org/new", "--parallel", "2", "--context", "64")
    assert {(choice["backend"], choice["quant"]) for choice in only["choices"]} > {("llama", "Q8_0")}
    assert only["engine"]["backend"] == "vllm"
    assert only["engine"]["verdict"] == "poor"
    assert "source: {huggingface: org/new}" in only["advice"]["lines"]
    assert "backend: vllm" in only["advice"]["lines"]


def test_a_model_of_llama_cpp_is_compared_with_vllm_where_the_manifest_has_it(site: Path):
    done = run(with_vllm(site), "m")
    assert (done.returncode, done.stderr) == (0, "")
    assert "vllm: a poor choice here" in " ".join(done.stdout.split())
    assert "safetensors" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_what_is_advised_to_be_written_is_yaml_the_manifest_takes(site: Path):
    (only,) = told(site, "org/new-GGUF", "--context", "1024")
    lines = "".join(f"\n    {line}" for line in only["advice"]["lines"])
    inventory = site / "inventory.yaml"
    inventory.write_text(
        inventory.read_text().replace("models:", f"models:\n  {only['advice']['name']}:{lines}")
    )
    done = cpudeploy("validate", cwd=site)
    assert (done.returncode, done.stderr) == (0, "")


def test_recorded_facts_carry_the_bandwidth_and_nobody_is_asked(site: Path, hub: RunningHub):
    recorded = site / "recorded"
    cpudeploy("facts", "--measure", "-o", str(recorded), cwd=site)  # the registry of the image is not there
    source = HuggingFace(repo="org/m-GGUF", quant="Q4_K_M")
    told_before = resolved(placement("m"), tensors=tensors(size=10**9, matrices={"Q4_K": 9 * 10**8}))
    weights = RecordedWeights(source=source, format="gguf", told=told_before.weights["m@one"])
    write_records(recorded, Records(weights=(weights,)))
    asked = len(hub.server.requests)
    (only,) = told(site, "--facts", str(recorded))
    assert only["bandwidth"] in range(10**8, 10**14)
    assert only["choices"][0]["speed"]["one"]["high"] > 0
    assert len(hub.server.requests) == asked


def test_a_model_of_which_nothing_is_recorded_is_told_as_such(site: Path):
    recorded = site / "recorded"
    cpudeploy("facts", "-o", str(recorded), cwd=site)
    (recorded / "resolved.json").unlink()
    done = run(site, "--facts", str(recorded))
    assert done.returncode == 1
    assert "nothing is recorded" in done.stdout


def test_a_host_without_facts_is_told_beside_the_others(tmp_path: Path, hub: RunningHub):
    site = write(tmp_path, hub, {"here": HERE, "away": gone()})
    done = run(site, "--format", "json")
    rows = {row["host"]: row for row in json.loads(done.stdout)["recommendations"]}
    assert done.returncode == 4
    assert "refused" in rows["away"]["problem"]
    assert rows["here"]["choices"]


def test_a_model_is_asked_about_on_its_own_hosts_only(tmp_path: Path, hub: RunningHub):
    site = write(tmp_path, hub, {"here": HERE, "away": gone()}, on=["here"])
    assert [row["host"] for row in told(site, "m")] == ["here"]


def test_what_cannot_be_served_yet_is_said(tmp_path: Path, hub: RunningHub):
    site = write(tmp_path, hub, {"here": HERE}, task="embed")
    done = run(site)
    assert done.returncode == 1
    assert "task embed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["other"], "choose from: m"),
        (["https://huggingface.co/org/new"], "write org/name as the Hub shows it"),
        (["org/new/more"], "write org/name as the Hub shows it"),
        (["inventory.yaml"], "give a manifest with -i"),
        (["--facts", ".", "--measure"], "--measure exclude each other"),
        (["--parallel", "0"], "--parallel"),
    ],
)
def test_usage_errors_say_what_would_be_right(site: Path, arguments: list[str], says: str):
    done = run(site, *arguments)
    assert done.returncode == 64
    assert says in done.stderr


@pytest.mark.parametrize("option", [["--context", "1024"], ["--parallel", "2"], ["--quant", "Q8_0"]])
def test_a_wish_is_asked_of_one_model(site: Path, option: list[str]):
    inventory = site / "inventory.yaml"
    manifest = yaml.safe_load(inventory.read_text())
    manifest["models"]["n"] = {**manifest["models"]["m"], "port": 8101}
    inventory.write_text(yaml.safe_dump(manifest))
    done = run(site, *option)
    assert done.returncode == 64
    assert f"{option[0]} is asked of one model" in done.stderr and "m, n" in done.stderr
    assert [row["model"] for row in told(site, "n", *option)] == ["n"]


def test_safetensors_have_no_quantisation_to_choose(site: Path):
    inventory = with_vllm(site) / "inventory.yaml"
    manifest = yaml.safe_load(inventory.read_text())
    manifest["models"]["m"] |= {"source": {"huggingface": "org/new"}, "backend": "vllm"}
    inventory.write_text(yaml.safe_dump(manifest))
    done = run(site, "m", "--quant", "Q8_0")
    assert done.returncode == 64
    assert "GGUF" in done.stderr


def test_one_file_has_no_quantisation_to_choose(tmp_path: Path, hub: RunningHub):
    source = {"url": f"{hub.url}/m.gguf", "sha256": "a" * 64}
    site = write(tmp_path, hub, {"here": HERE}, source=source)
    done = run(site, "m", "--quant", "Q8_0")
    assert done.returncode == 64
    assert "leave it out" in done.stderr
