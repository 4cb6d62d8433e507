"""Hosts that may use less than they have: what facts tell, what a model gets there, and what is refused.

The machine's /proc shows everything on all of them; the limits are to be read where they are set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.site import Site, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

ONE_CORE = HostSpec("limit-core", cpus="1", engine=True)
HALF_CORE = HostSpec("limit-quota", quota=0.5, engine=True)
ONE_GIB = HostSpec("limit-memory", memory="1g", engine=True)
HOSTS = (ONE_CORE.name, HALF_CORE.name, ONE_GIB.name)
CONTAINER = "rag_tiny_0"
BIG = "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One deployment on three hosts, each limited in another way, applied once."""
    lab.add(ONE_CORE, HALF_CORE, ONE_GIB)
    try:
        site = make_site(lab, tmp_path_factory.mktemp("limits"), *HOSTS)
        shared = {"host": ONE_GIB.name, "cpus": "shared"}  # so that there is a core for one more
        site.manifest["models"]["tiny"]["on"] = [ONE_CORE.name, HALF_CORE.name, shared]
        site.run("apply")
        yield site
    finally:
        for name in HOSTS:
            lab.remove(name)


@pytest.fixture(scope="module")
def facts(site: Site) -> dict[str, Any]:
    return site.json("facts")


def test_a_cpuset_leaves_only_its_core(facts: dict[str, Any]):
    cpu = facts[ONE_CORE.name]["cpu"]
    assert [core["cpus"] for core in cpu["cores"]] == [[1]]
    assert cpu["quota"] is None
    assert cpu["online"] > 1


def test_a_quota_is_told_beside_the_cores_and_takes_none_of_them_away(facts: dict[str, Any]):
    cpu = facts[HALF_CORE.name]["cpu"]
    assert cpu["quota"] == 0.5
    assert sum(len(core["cpus"]) for core in cpu["cores"]) == cpu["online"]


def test_a_memory_limit_is_the_memory_there_is(facts: dict[str, Any]):
    memory = facts[ONE_GIB.name]["memory"]
    assert memory["total"] == memory["limit"] == 1 << 30
    assert 0 < memory["available"] < 1 << 30 < memory["machine"]


def test_a_host_without_a_memory_limit_has_the_memory_of_the_machine(facts: dict[str, Any]):
    memory = facts[ONE_CORE.name]["memory"]
    assert memory["limit"] is None
    assert memory["total"] == memory["machine"]


@pytest.mark.parametrize(("name", "cpuset"), [(ONE_CORE.name, "1"), (HALF_CORE.name, "0-1")])
def test_a_model_runs_as_many_threads_as_can_run_at_once(site: Site, name: str, cpuset: str):
    found = site.inspect(name, CONTAINER)
    command = found["Config"]["Cmd"]
    assert command[command.index("--threads") + 1] == "1"
    assert command[command.index("--threads-batch") + 1] == "1"
    assert found["HostConfig"]["CpusetCpus"] == cpuset


@pytest.mark.parametrize("name", HOSTS)
def test_the_model_answers(site: Site, name: str):
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8})
    answer = site.http(name, 8100, "POST /v1/chat/completions", key=site.api_key, body=body)
    assert json.loads(answer)["usage"]["completion_tokens"] > 0


def test_limits_are_no_reason_to_change_anything_twice(site: Site):
    assert site.settled()


def test_a_model_larger_than_the_memory_limit_is_refused_and_what_is_advised_instead_fits(site: Site):
    before = site.inspect(ONE_GIB.name, CONTAINER)["Id"]
    site.manifest["models"]["big"] = {
        "source": {"huggingface": BIG},
        "backend": "llama",
        "on": [ONE_GIB.name],
        "port": 8101,
        "cpus": "shared",
        "context": 8192,
        "parallel": 4,
    }
    try:
        # The other hosts have what they need; only this one is refused.
        for command, code in (("apply", 3), ("plan", 1)):
            told = " ".join(site.run(command, code=code).split())
            advised = re.search(r"big would fit with context (\d+)", told)
            assert advised, told
        site.manifest["models"]["big"]["context"] = int(advised[1])
        assert f"{advised[1]} × 4" in site.run("plan", "--detailed-exitcode", code=2)
    finally:
        del site.manifest["models"]["big"]
    assert site.inspect(ONE_GIB.name, CONTAINER)["Id"] == before
    assert site.settled()
