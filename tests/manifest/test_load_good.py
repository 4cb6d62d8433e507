"""Manifests that are right, and what they mean: precedence, defaults, references, places."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.manifest import load
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import (
    HostPath,
    HuggingFace,
    ModelScope,
    Placement,
    Proxy,
    Reserve,
    Upload,
    Url,
)

from .conftest import CERTIFICATE, GOOD, Loader, changed

FULL = """\
version: 1
name: rag
defaults:
  ssh: {user: ops, config: conf/ssh, host_keys: accept-new}
  sudo: {password: {from_env: SUDO_PW}}
  engine: {use: existing}
  dirs: {weights: /data/models}
  labels: {site: hq}
  source: {token: {from_env: HF_TOKEN}}
  context: 1024
  env: {A: default, B: default}
hosts:
  genoa-1:
    address: 10.20.2.11
    port: 2222
    labels: {rack: "1"}
    reserve: {cpus: 2, memory: 8GiB}
    context: 2048
  small-1: {user: root, sudo: none, playbooks: [base]}
  here: {connection: local}
  old: {address: 10.20.2.12, retired: true}
mirrors:
  images:
    - {match: ghcr.io/, try: [m.daocloud.io/ghcr.io/, "http://10.0.0.9:5000/ghcr/"]}
    - match: docker.io/vllm/vllm-openai-cpu
      try: [swr.example.com/gpustack/vllm-openai-cpu]
      digests: {0.21: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
  huggingface: https://hf-mirror.com
  modelscope: https://www.modelscope.ai
registries:
  harbor.corp/llm: {username: "robot$llm+pull", password: {from_file: secrets/harbor}, ca: corp.pem}
backends:
  llama: {playbook: engine, image: "ghcr.io/x/y:b9000", params: {kv: q8_0, ratio: 1}}
models:
  qwen:
    source: {huggingface: Qwen/Qwen3-4B-GGUF, quant: Q4_K_M}
    backend: llama
    on:
      - genoa-1
      - {host: small-1, source: {quant: Q4_0}, port: 8101, env: {B: entry}, parallel: 1, args: []}
      - {hosts: [here], source: {path: /w/qwen.gguf}, served_name: local qwen}
    port: 8100
    parallel: 4
    cpus: 8
    memory: 4GB
    env: {B: model}
    args: [--seed, 3, "--alias={{ model.name }}"]
  bge:
    source:
      url: https://example.com/bge.gguf
      sha256: "0000000000000000000000000000000000000000000000000000000000000000"
    backend: llama
    on: [genoa-1]
    port: 8102
    listen: 10.20.0.0/16
    cpus: "0-3,8"
    api_key: {from_file: secrets/key}
"""


@pytest.fixture
def full(tmp_path: Path, playbooks: Path) -> Path:
    (tmp_path / "corp.pem").write_text(CERTIFICATE)
    path = tmp_path / "inventory.yaml"
    path.write_text(FULL)
    return path


def placement(load_text: Loader, text: str) -> Placement:
    (only,) = load_text(text).deployment.placements
    return only


def test_hosts_take_defaults_and_their_own(full: Path, playbooks: Path, tmp_path: Path) -> None:
    hosts = load(full, [playbooks]).deployment.hosts
    genoa = hosts["genoa-1"]
    assert (genoa.ssh.address, genoa.ssh.port, genoa.ssh.user) == ("10.20.2.11", 2222, "ops")
    assert genoa.ssh.config == str(tmp_path / "conf/ssh")
    assert genoa.ssh.host_keys == "accept-new"
    assert genoa.sudo.password == SecretRef(kind="from_env", name="SUDO_PW")
    assert genoa.labels == {"site": "hq", "rack": "1"}
    assert genoa.reserve == Reserve(cpus=2, memory=8 * 2**30)
    assert (genoa.engine, genoa.weights_dir) == ("existing", "/data/models")
    small = hosts["small-1"]
    assert (small.ssh.address, small.ssh.user) == ("small-1", "root")
    assert (small.sudo.use, small.sudo.password) == ("none", None)
    assert small.playbooks == ("base",)
    assert hosts["here"].connection == "local"
    assert hosts["old"].retired


def test_the_entry_of_on_wins_over_model_over_host_over_defaults(full: Path, playbooks: Path) -> None:
    qwen = [p for p in load(full, [playbooks]).deployment.placements if p.model == "qwen"]
    assert [p.host for p in qwen] == ["genoa-1", "small-1", "here"]
    assert [p.context for p in qwen] == [2048, 1024, 1024]
    assert [p.port for p in qwen] == [8100, 8101, 8100]
    assert [p.parallel for p in qwen] == [4, 1, 4]
    assert [p.env for p in qwen] == [
        {"A": "default", "B": "model"},
        {"A": "default", "B": "entry"},
        {"A": "default", "B": "model"},
    ]
    assert [p.served_name for p in qwen] == ["qwen", "qwen", "local qwen"]
    assert [p.args for p in qwen] == [("--seed", "3", "--alias={{ model.name }}"), (), qwen[0].args]
    assert qwen[0].cpus == "cores:8"
    assert qwen[0].memory == 4 * 10**9


def test_sources_merge_within_a_kind_and_replace_across_kinds(full: Path, playbooks: Path) -> None:
    sources = [p.source for p in load(full, [playbooks]).deployment.placements]
    token = SecretRef(kind="from_env", name="HF_TOKEN")
    assert sources == [
        HuggingFace(repo="Qwen/Qwen3-4B-GGUF", quant="Q4_K_M", token=token),
        HuggingFace(repo="Qwen/Qwen3-4B-GGUF", quant="Q4_0", token=token),
        HostPath(path="/w/qwen.gguf"),
        Url(url="https://example.com/bge.gguf", sha256="0" * 64),
    ]


def test_mirrors_registries_and_backends(full: Path, playbooks: Path) -> None:
    deployment = load(full, [playbooks]).deployment
    assert [rule.places for rule in deployment.mirrors.images] == [
        ("m.daocloud.io/ghcr.io/", "http://10.0.0.9:5000/ghcr/"),
        ("swr.example.com/gpustack/vllm-openai-cpu",),
    ]
    assert deployment.mirrors.modelscope == "https://www.modelscope.ai"
    assert list(deployment.mirrors.images[1].digests) == ["0.21"]
    (registry,) = deployment.registries
    assert registry.scope == "harbor.corp/llm"
    assert registry.password == SecretRef(kind="from_file", name="secrets/harbor")
    assert registry.ca is not None
    assert registry.ca.startswith("-----BEGIN")
    assert deployment.backends["llama"].params == {"kv": "q8_0", "ratio": 1}


def test_every_kind_of_source_has_its_selectors(load_text: Loader) -> None:
    def source(written: str) -> object:
        return placement(load_text, changed("{path: /w/m.gguf}", written)).source

    token = SecretRef(kind="from_command", name="pass show hf")
    assert source(
        "{huggingface: a/b, mmproj: 'mmproj*', token: {from_command: pass show hf}}"
    ) == HuggingFace(repo="a/b", mmproj="mmproj*", token=token)
    assert source("{modelscope: a/b}") == ModelScope(repo="a/b", revision="master")
    assert source("{modelscope: a/b, revision: v1, quant: Q8_0, files: ['*'], mmproj: m}") == ModelScope(
        repo="a/b", revision="v1", quant="Q8_0", files=("*",), mmproj="m"
    )
    for kind, wanted in (("huggingface", HuggingFace), ("modelscope", ModelScope)):
        found = source(f"{{{kind}: a/b, files: ['*.json'], exclude: ['onnx/*', 'x.json']}}")
        assert found == wanted(repo="a/b", files=("*.json",), exclude=("onnx/*", "x.json"))
    assert source("{upload: models/m}") == Upload(path="models/m")


def test_a_token_goes_only_to_the_hub_it_is_for(load_text: Loader) -> None:
    """One that no kind stands beside may be anybody's: it is taken for huggingface."""
    text = "defaults: {source: {token: {from_env: HF_TOKEN}, revision: v1}}\n"
    for kind, token in (("huggingface", SecretRef(kind="from_env", name="HF_TOKEN")), ("modelscope", None)):
        found = placement(load_text, text + changed("{path: /w/m.gguf}", f"{{{kind}: a/b}}")).source
        assert isinstance(found, (HuggingFace, ModelScope))
        assert (found.token, found.revision) == (token, "v1")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("{from_env: KEY}", ("from_env", "KEY")),
        ("{from_file: keys/k}", ("from_file", "keys/k")),
        ("{from_age: ~/k.age}", ("from_age", "~/k.age")),
        ("{from_sops: /k.sops}", ("from_sops", "/k.sops")),
        ("{from_command: pass show 'a b'}", ("from_command", "pass show 'a b'")),
        ("{from_command: [pass, show, a b]}", ("from_command", "pass show 'a b'")),
    ],
)
def test_secrets_are_references(load_text: Loader, written: str, found: tuple[str, str]) -> None:
    text = changed("    port: 8100", f"    port: 8100\n    api_key: {written}")
    assert placement(load_text, text).api_key == SecretRef(kind=found[0], name=found[1])


def test_a_secret_closer_to_the_host_replaces_one_of_another_kind(load_text: Loader) -> None:
    text = "defaults: {sudo: {password: {from_env: A}}}\n" + changed(
        "10.0.0.1}", "10.0.0.1, sudo: {password: {from_file: b}}}"
    )
    assert load_text(text).deployment.hosts["a"].sudo.password == SecretRef(kind="from_file", name="b")


def test_the_site_is_told_of_proxy_networks_and_packages(load_text: Loader) -> None:
    deployment = load_text(
        "proxy: {http: 'http://p:3128', https: 'http://q:3128', no_proxy: [a.corp, .b, 10.0.0.0/8, '[::1]:80']}\n"
        "networks: {pool: 10.99.0.0/24}\nmirrors: {docker-ce: 'https://m.example/docker-ce'}\n" + GOOD
    ).deployment
    assert deployment.proxy == Proxy(
        http="http://p:3128", https="http://q:3128", no_proxy=("a.corp", ".b", "10.0.0.0/8", "[::1]:80")
    )
    assert deployment.network_pool == "10.99.0.0/24"
    assert deployment.mirrors.docker_ce == "https://m.example/docker-ce"


@pytest.mark.parametrize(
    ("written", "each", "ports"),
    [("8100", "host", (8100, None)), ('"8100-8103"', "numa", (8100, 8103)), ("8100", "numa", (8100, None))],
)
def test_a_range_of_ports_caps_the_instances(
    load_text: Loader, written: str, each: str, ports: tuple[int, int | None]
) -> None:
    text = changed("    port: 8100", f"    port: {written}\n    each: {each}\n    fetch: controller")
    found = placement(load_text, text)
    assert ((found.port, found.last_port), found.each, found.fetch) == (ports, each, "controller")


@pytest.mark.parametrize("task", ["embed", "rerank"])
def test_a_task_that_no_playbook_has_yet_is_no_fault_of_the_manifest(load_text: Loader, task: str) -> None:
    assert placement(load_text, changed("    port: 8100", f"    port: 8100\n    task: {task}")).task == task


@pytest.mark.parametrize("use", ["install", "existing", "manage"])
def test_the_engine_is_used_as_told(load_text: Loader, use: str) -> None:
    text = changed("address: 10.0.0.1", f"engine: {{use: {use}}}")
    assert load_text(text).deployment.hosts["a"].engine == use


@pytest.mark.parametrize("listen", ["eth0", "enp1s0f0", "bond0.100", "wlan-x", "br_lan"])
def test_an_interface_may_be_listened_on(load_text: Loader, listen: str) -> None:
    text = changed("    port: 8100", f"    port: 8100\n    listen: {listen}\n    api_key: none")
    assert placement(load_text, text).listen == listen


def test_playbooks_come_with_those_they_require(load_text: Loader) -> None:
    assert sorted(load_text(GOOD).playbooks) == ["base", "engine"]


def test_positions_tell_where_values_were_written(load_text: Loader, tmp_path: Path) -> None:
    positions = load_text(GOOD).positions
    inventory = tmp_path / "inventory.yaml"
    assert positions["models.m"] == f"{inventory}:8:3"
    assert positions["models.m.port"] == f"{inventory}:11:11"
    assert positions["models.m.on[0]"] == f"{inventory}:12:10"


def test_the_base_is_the_manifests_folder_wherever_it_is_called_from(
    full: Path, playbooks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(Path("inventory.yaml"), [playbooks]).deployment.base == str(tmp_path)


def test_a_deployment_without_models_only_prepares_hosts(load_text: Loader) -> None:
    deployment = load_text("version: 1\nname: a\nhosts: {h: {playbooks: [base]}}\n").deployment
    assert deployment.placements == ()


@pytest.mark.parametrize(
    ("written", "cpus"),
    [
        ("auto", "auto"),
        ("8", "cores:8"),
        ('"0-7"', "0-7"),
        ("numa:0", "numa:0"),
        ("shared", "shared"),
        ("0o10", "cores:8"),
    ],
)
def test_cpus_are_taken_as_meant(load_text: Loader, written: str, cpus: str) -> None:
    text = changed("    port: 8100", f"    port: 8100\n    cpus: {written}")
    assert placement(load_text, text).cpus == cpus


@pytest.mark.parametrize(
    "listen", ["127.0.0.1", "127.0.0.5", "::1", "::ffff:127.0.0.1"], ids=lambda listen: listen
)
def test_loopback_needs_no_key(load_text: Loader, listen: str) -> None:
    text = changed("    port: 8100", f'    port: 8100\n    listen: "{listen}"')
    assert placement(load_text, text).listen == listen


@pytest.mark.parametrize("listen", ["0.0.0.0", "host", "10.0.0.0/8", "::"], ids=lambda listen: listen)
def test_no_key_said_aloud_opens_a_model(load_text: Loader, listen: str) -> None:
    text = changed("    port: 8100", f'    port: 8100\n    listen: "{listen}"\n    api_key: none')
    found = placement(load_text, text)
    assert (found.open, found.api_key) == (True, None)


def test_words_of_yaml_1_1_are_text(load_text: Loader) -> None:
    text = changed("    on:", "    env: {A: no, B: on, C: 1:30, D: 2001-01-01, E: 1_000, F: 12}\n    on:")
    assert placement(load_text, text).env == {
        "A": "no",
        "B": "on",
        "C": "1:30",
        "D": "2001-01-01",
        "E": "1_000",
        "F": "12",
    }


def test_keys_count_as_written(load_text: Loader) -> None:
    text = changed("    on:", "    env: {on: a, yes: b}\n    on:").replace(
        "  a: {", "  010: {}\n  8: {}\n  a: {"
    )
    manifest = load_text(text)
    assert list(manifest.deployment.hosts) == ["010", "8", "a"]
    assert manifest.deployment.placements[0].env == {"on": "a", "yes": "b"}


def test_anchors_and_aliases_may_share_settings(load_text: Loader) -> None:
    text = changed("    on:", "    env: &shared {A: b}\n    on:")
    text += "  n: {source: {path: /w/n}, backend: llama, port: 8101, on: [a], env: *shared}\n"
    assert [p.env for p in load_text(text).deployment.placements] == [{"A": "b"}, {"A": "b"}]


def test_one_port_may_be_used_on_different_addresses(load_text: Loader) -> None:
    text = GOOD + "  n: {source: {path: /w/n}, backend: llama, port: 8100, listen: 127.0.0.2, on: [a]}\n"
    assert len(load_text(text).deployment.placements) == 2
