"""vLLM and llama.cpp side by side on one host: real servers, cores of their own, nothing left to do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.lab import vllm
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.lab.shell import wait_until

pytestmark = pytest.mark.lab

HOST = "engines13"
VLLM, LLAMA = "both_qwen_0", "both_tiny_0"
GIB = 1 << 30
COMES_BACK_S = 300


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A Debian 13 host with an engine; after one apply a model in each form is served there, each by its engine."""
    bare_hosts(lab, HostSpec(HOST, "trixie", engine=True))
    vllm.serve_models(lab, vllm.TINY)
    vllm.publish(lab)
    site = make_site(lab, tmp_path_factory.mktemp("engines"), HOST, name="both")
    site.manifest["mirrors"]["images"].append(
        {"match": "docker.io/", "try": [f"http://{lab.registry.plain}/"]}
    )
    site.manifest["backends"]["vllm"] = {
        "playbook": "vllm-cpu",
        "image": vllm.IMAGE,
        "params": {"eager": True},  # compiling is what the demo shows; here it would cost a minute
    }
    tiny = site.manifest["models"]["tiny"]
    tiny["cpus"] = 1
    site.manifest["models"]["qwen"] = tiny | {
        "source": {"huggingface": vllm.TINY},
        "backend": "vllm",
        "port": 8101,
        "parallel": 2,
    }
    site.applied = site.run("apply")  # type: ignore[attr-defined]
    yield site
    lab.remove(HOST)


def test_both_answer(site: Site):
    for model in ("qwen", "tiny"):
        assert site.run("chat", model, "Hello.", "--max-tokens", "8").strip()


def test_vllm_answers_only_with_its_key(site: Site):
    assert '"id":"qwen"' in site.ask(HOST, 8101, site.api_key)
    assert "qwen" not in site.ask(HOST, 8101)


def test_each_has_cores_of_its_own_and_vllm_binds_its_threads_to_them(site: Site):
    containers = [site.inspect(HOST, name) for name in (VLLM, LLAMA)]
    cpusets = [found["HostConfig"]["CpusetCpus"] for found in containers]
    assert sorted(cpusets) == ["0", "1"]
    assert f"VLLM_CPU_OMP_THREADS_BIND={cpusets[0]}" in containers[0]["Config"]["Env"]


def test_vllms_container_has_what_it_needs_and_no_more(site: Site):
    found = site.inspect(HOST, VLLM)
    host = found["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert [name.removeprefix("CAP_") for name in host["CapAdd"]] == ["SYS_NICE"]
    assert set(host["SecurityOpt"]) == {"no-new-privileges", "seccomp=unconfined"}
    assert host["ShmSize"] == 4 * GIB
    assert host["ReadonlyRootfs"] is True
    assert host["Memory"] == host["MemorySwap"] > GIB
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    mounts = {mount["Destination"]: mount["RW"] for mount in found["Mounts"]}
    assert mounts == {"/models": False, "/run/secrets/api_key": False, "/cache": True}
    assert "HF_HUB_OFFLINE=1" in found["Config"]["Env"]
    assert site.api_key not in json.dumps(found)


def test_the_image_and_its_preloaded_allocator_are_the_images_own(site: Site):
    (preload,) = [word for word in vllm.SETTINGS["Env"] if word.startswith("LD_PRELOAD=")]
    assert preload in site.inspect(HOST, VLLM)["Config"]["Env"]


def test_nothing_is_left_to_do(site: Site):
    assert site.settled()


def test_vllm_that_dies_with_exit_code_0_comes_back_by_itself(site: Site):
    host = site.on(HOST)
    before = site.inspect(HOST, VLLM)["RestartCount"]
    processes = host.check_output("docker top %s -eo pid,args", VLLM).splitlines()
    (engine,) = [line.split()[0] for line in processes if "EngineCore" in line]
    host.check_output("kill -9 %s", engine)
    wait_until(
        "the restart of vLLM", lambda: site.inspect(HOST, VLLM)["RestartCount"] > before, COMES_BACK_S, 1
    )
    wait_until("vLLM to answer", lambda: "qwen" in site.ask(HOST, 8101, site.api_key), COMES_BACK_S, 2)
    assert site.settled()


def test_taken_away_neither_containers_nor_their_volumes_stay(site: Site):
    host = site.on(HOST)
    assert host.check_output("docker volume ls --quiet") == "both_qwen_cache"
    del site.manifest["models"]["qwen"]
    assert "volume of qwen" in site.run("plan")
    site.run("apply")
    assert host.check_output("docker volume ls --quiet") == ""
    assert site.settled()
    site.run("destroy", "--yes")
    assert host.check_output("docker ps --all --quiet") == ""
