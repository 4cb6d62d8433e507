"""Documents recorded from real hosts: Debian 12 and 13, bare, limited, and with an engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.errors import HostError
from cpudeploy.probe import parse
from cpudeploy.types.base import from_json, to_json
from cpudeploy.types.facts import Container, Facts, Mark, Network, Publish, Volume

RECORDED = Path(__file__).parent / "recorded"


def document(name: str) -> bytes:
    return (RECORDED / f"{name}.txt").read_bytes()


def facts(name: str) -> Facts:
    return parse(document(name), "h1")


def with_record(name: str, key: str, text: str, code: int = 0) -> bytes:
    """A recorded document with one record added or replaced (the last one counts)."""
    data = text.encode()
    return document(name) + b"%s %d %d\n%s\n" % (key.encode(), code, len(data), data)


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.txt")), ids=lambda file: file.stem)
def test_recorded_facts_survive_their_json_form(file: Path) -> None:
    found = parse(file.read_bytes(), "h1")
    assert from_json(to_json(found), Facts) == found


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("engine-networks", '["id", "n", "bridge", false, 1, ""]'),
        ("engine-networks", '["id", "n", "bridge", false, ["x"], ""]'),
        ("engine-networks", '[null, null, "bridge", false, [], ""]'),
        ("engine-networks", "[" * 100_000),
        ("engine-volumes", '["n"]'),
        ("engine-volumes", '[["n"], "rag"]'),
        ("engine-version", "[" * 100_000),
    ],
)
def test_an_answer_of_another_form_is_the_trouble_of_that_host(key: str, text: str) -> None:
    with pytest.raises(HostError) as caught:
        parse(with_record("debian12-docker20.10", key, text), "h1")
    assert caught.value.where == "h1"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"x": "\\ud800"}', '{"x": NaN}'])
def test_a_release_that_is_no_json_is_lost_and_the_host_is_not(text: str) -> None:
    found = parse(with_record("debian12-bare", "release:rag/releases/0001-aaaaaaaa.json", text), "h1")
    assert found.releases == {"rag": {"0001-aaaaaaaa": {"unknown": "not JSON"}}}


def test_a_subnet_that_is_none_is_left_out() -> None:
    row = '["id", "n", "bridge", false, [{"Subnet": "invalid Prefix"}, {"Subnet": "10.1.0.0/24"}], ""]'
    found = parse(with_record("debian12-docker20.10", "engine-networks", row), "h1")
    assert found.networks["n"].subnets == ("10.1.0.0/24",)


def test_a_bare_host() -> None:
    found = facts("debian12-bare")
    assert (found.os.id, found.os.version, found.os.arch) == ("debian", "12", "amd64")
    assert found.engine.state == "absent"
    assert found.containers == {}
    assert found.tools["apt-get"] and not found.tools["docker"]
    assert isinstance(found.cpu.cores, tuple) and len(found.cpu.cores) == 2
    assert isinstance(found.cpu.flags, tuple) and "avx2" in found.cpu.flags


def test_limits_that_only_the_cgroup_shows() -> None:
    found = facts("debian12-limited")
    assert isinstance(found.cpu.cores, tuple)
    assert [core.cpus for core in found.cpu.cores] == [(1,)]
    assert (found.cpu.online, found.cpu.quota) == (2, 0.5)
    assert (found.memory.total, found.memory.limit) == (2 << 30, 2 << 30)


@pytest.mark.parametrize(
    ("name", "version", "api", "package"),
    [
        ("debian12-docker20.10", "20.10.24+dfsg1", "1.41", "installed:20.10.24+dfsg1-1+deb12u1+b6"),
        ("debian13-docker26.1", "26.1.5+dfsg1", "1.45", "installed:26.1.5+dfsg1-9+deb13u1+b1"),
    ],
)
def test_an_engine_and_what_it_holds(name: str, version: str, api: str, package: str) -> None:
    found = facts(name)
    engine = found.engine
    assert (engine.state, engine.version, engine.api_version) == ("running", version, api)
    assert (engine.root, engine.storage, engine.live_restore) == ("/var/lib/docker", "overlay2", False)
    assert engine.insecure == {"127.0.0.0/8": True}
    assert found.packages["docker.io"] == package
    assert found.packages["nginx"] is not None and found.packages["nginx"].startswith("candidate:")

    ours = found.containers["rag_qwen3-4b_0"]
    assert ours.mark == Mark(
        schema=1, deployment="rag", model="qwen3-4b", instance=0, release="0001-abcdef12"
    )
    assert (ours.running, ours.status, ours.restart_policy) == (True, "running", "unless-stopped")
    assert (ours.cpuset, ours.memory, ours.memory_swap) == ("0-1", 1 << 28, 1 << 28)
    assert ours.publish == (Publish(address="127.0.0.1", port=8100, container_port=8080),)
    assert ours.networks == {"rag_pub": "10.201.0.2"}

    foreign = found.containers["foreign"]
    assert (foreign.mark, foreign.running, foreign.exit_code, foreign.quota) == (None, False, 3, 0.5)

    network = found.networks["rag_pub"]
    assert (network.deployment, network.subnets, network.internal) == ("rag", ("10.201.0.0/26",), False)
    assert isinstance(found.networks["bridge"], Network)

    assert len(found.images) == 1
    digest, image = next(iter(found.images.items()))
    repository = "10.77.7.2:5000/ggml-org/llama.cpp"
    assert image.references == (f"{repository}:server-b11434", f"{repository}@{digest}")
    assert image.platform == "linux/amd64"


@pytest.mark.parametrize("name", ["debian12-docker20.10", "debian13-docker26.1"])
def test_of_containers_neither_environment_nor_command_is_read(name: str) -> None:
    assert b"foreign-secret" not in document(name)


def test_podmans_shim_is_foreign() -> None:
    shim = '/usr/bin/docker\n#!/bin/sh\nexec /usr/bin/podman "$@"'
    found = parse(with_record("debian12-docker20.10", "engine-client", shim), "h1")
    assert (found.engine.state, found.engine.detail) == ("foreign", "`docker` is podman")
    assert found.containers == {}


def test_a_snap_is_foreign() -> None:
    found = parse(with_record("debian12-docker20.10", "engine-client", "/snap/bin/docker\n"), "h1")
    assert (found.engine.state, found.engine.detail) == ("foreign", "docker is a snap")


def test_an_engine_that_does_not_answer_is_stopped() -> None:
    info = '{"ServerErrors": ["Cannot connect to the Docker daemon"], "ServerVersion": ""}'
    found = parse(with_record("debian13-docker26.1", "engine-info", info, 1), "h1")
    assert (found.engine.state, found.engine.detail) == ("stopped", "Cannot connect to the Docker daemon")
    assert found.containers == {}


def test_an_engine_that_hangs_is_unknown_and_not_an_empty_one() -> None:
    with pytest.raises(HostError, match="no answer in time") as error:
        parse(with_record("debian13-docker26.1", "engine-info", "", 124), "h1")
    assert error.value.where == "h1"


def test_an_engine_that_runs_but_refuses_is_unknown_and_not_an_empty_one() -> None:
    alive = with_record("debian13-docker26.1", "engine-process", "dockerd")
    info = b'{"ServerErrors": ["Error response from daemon"], "ServerVersion": ""}'
    with pytest.raises(HostError, match="Error response from daemon"):
        parse(alive + b"engine-info 1 %d\n%s\n" % (len(info), info), "h1")


@pytest.mark.parametrize("what", ["containers", "networks", "images"])
def test_a_listing_that_failed_is_an_error_and_not_an_empty_engine(what: str) -> None:
    with pytest.raises(HostError, match=f"listing {what} failed") as error:
        parse(with_record("debian13-docker26.1", f"engine-{what}", "", 1), "h1")
    assert error.value.where == "h1"


def test_volumes_that_can_not_be_listed_keep_nothing_else_from_being_seen() -> None:
    found = parse(with_record("debian13-docker26.1", "engine-volumes", "", 124), "h1")
    assert found.volumes == {} and found.containers


def test_a_proxys_password_is_not_kept() -> None:
    info = '{"ServerVersion": "26", "HttpProxy": "http://user:secret@proxy:3128", "NoProxy": "10.0.0.0/8"}'
    found = parse(with_record("debian13-docker26.1", "engine-info", info), "h1")
    assert found.proxy == {"http": "http://proxy:3128", "no_proxy": "10.0.0.0/8"}


def test_a_container_with_half_our_labels_is_not_ours() -> None:
    row = document("debian12-docker20.10").split(b"engine-containers 0 ")[1].split(b"\n")[1].decode()
    half = row.replace('"0001-abcdef12"]', "null]")
    found = parse(with_record("debian12-docker20.10", "engine-containers", half), "h1")
    assert isinstance(container := found.containers["rag_qwen3-4b_0"], Container)
    assert container.mark is None


def test_what_of_the_host_a_container_sees() -> None:
    row = document("debian12-docker20.10").split(b"engine-containers 0 ")[1].split(b"\n")[1].decode()
    tree = (
        '{"Type":"bind","Source":"/data/trees/a","Destination":"/models","Mode":"","RW":false,'
        '"Propagation":"rprivate"}'
    )
    memory = '{"Type":"tmpfs","Source":"","Destination":"/tmp","Mode":"","RW":true,"Propagation":""}'
    mounted = row.replace("}},[],", f"}}}},[{tree},{memory}],")
    found = parse(with_record("debian12-docker20.10", "engine-containers", mounted), "h1")
    assert found.containers["rag_qwen3-4b_0"].mounts == ("/data/trees/a",)


def test_whose_a_volume_is_and_who_mounts_it() -> None:
    row = document("debian12-docker20.10").split(b"engine-containers 0 ")[1].split(b"\n")[1].decode()
    cache, unnamed = (
        f'{{"Type":"volume","Name":"{name}","Source":"/var/lib/docker/volumes/{name}/_data",'
        '"Destination":"/cache","Driver":"local","Mode":"z","RW":true,"Propagation":""}'
        for name in ("rag_qwen3-4b_cache", "f" * 64)
    )
    tree = '{"Type":"bind","Source":"/data/trees/a","Destination":"/models","Mode":"","RW":false}'
    mounted = row.replace("}},[],", f"}}}},[{unnamed},{tree},{cache}],")
    found = parse(with_record("debian12-docker20.10", "engine-containers", mounted), "h1")
    assert found.containers["rag_qwen3-4b_0"].volumes == ("f" * 64, "rag_qwen3-4b_cache")
    listed = '["rag_qwen3-4b_cache","rag"]\n["theirs",""]'
    found = parse(with_record("debian12-docker20.10", "engine-volumes", listed), "h1")
    assert found.volumes == {
        "rag_qwen3-4b_cache": Volume(deployment="rag"),
        "theirs": Volume(deployment=""),
    }


def test_how_often_a_container_was_stopped_by_its_quota() -> None:
    quiet = facts("debian12-docker20.10").containers
    assert {container.throttled for container in quiet.values()} == {None}
    stopped = f"{quiet['foreign'].id} 400 100\n{'0' * 64} 10 10\n"
    found = parse(with_record("debian12-docker20.10", "throttled", stopped), "h1").containers
    assert (found["foreign"].throttled, found["rag_qwen3-4b_0"].throttled) == (0.25, None)


MACHINE = (
    *("cpuinfo", "cpuinfo-all", "online", "isolated", "topology", "siblings", "kinds", "lscpu", "lscpu-rows"),
    *("affinity", "memory-nodes", "nodes", "node-cpus", "meminfo", "limits", "throttled", "long-bit"),
    *("os-release", "uname", "machine", "page-size", "clock"),
    *("net/tcp", "net/fib_trie", "net/route", "net/if_inet6", "net/ipv6_route"),
)
LIKE_IT = st.text(
    st.sampled_from("0123456789 \n:-,|/=kBLOCALhostMemTotalprocessorcpu.maxdocker²߀\t\x0b\u2028")
)


@given(st.sampled_from(MACHINE), st.one_of(LIKE_IT, st.text()))
@settings(max_examples=400, deadline=None)
def test_damage_to_one_answer_leaves_the_others_known(key: str, text: str) -> None:
    whole = facts("debian12-limited")
    found = parse(with_record("debian12-limited", key, text), "h1")
    assert found.files == whole.files
    cpu = found.cpu
    if isinstance(cpu.cores, tuple):
        assert sorted(each for core in cpu.cores for each in core.cpus) == list(cpu.usable)
    if isinstance(found.memory.total, int) and isinstance(found.memory.available, int):
        assert 0 <= found.memory.available <= found.memory.total
    assert from_json(to_json(found), Facts) == found
