"""From bare hosts to models that answer: planned, applied, unchanged, changed by one line, taken away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOSTS = ("path12", "path13")
CONTAINER = "rag_tiny_0"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two bare hosts, Debian 12 and 13, the second with a sudo password."""
    bare_hosts(lab, HostSpec(HOSTS[0], "bookworm"), HostSpec(HOSTS[1], "trixie", sudo="password"))
    site = make_site(lab, tmp_path_factory.mktemp("site"), *HOSTS)
    site.bare_plan = site.run("plan", "--detailed-exitcode", code=2)
    site.applied = site.run("apply")  # type: ignore[attr-defined]
    yield site
    for name in HOSTS:
        lab.remove(name)


def test_the_plan_of_a_bare_host_shows_every_preparation(site: Site):
    for word in ("docker.io", "certificate", "daemon.json", "rag_pub", "llama.cpp", "to fetch", "512 × 1"):
        assert word in site.bare_plan


def test_the_second_plan_is_empty_and_a_second_apply_changes_nothing(site: Site):
    assert site.settled()
    before = {host: site.inspect(host, CONTAINER)["Id"] for host in HOSTS}
    site.run("apply")
    assert {host: site.inspect(host, CONTAINER)["Id"] for host in HOSTS} == before


@pytest.mark.parametrize("name", HOSTS)
def test_the_host_is_as_the_plan_said(site: Site, name: str):
    host = site.on(name)
    assert host.service("docker").is_running
    assert host.service("docker").is_enabled
    assert host.socket("tcp://127.0.0.1:8100").is_listening
    assert not host.socket("tcp://0.0.0.0:8100").is_listening
    state = host.file("/var/lib/cpudeploy")
    assert (state.user, oct(state.mode)) == ("root", "0o700")
    assert oct(host.file("/var/lib/cpudeploy/weights").mode) == "0o755"
    releases = host.file("/var/lib/cpudeploy/rag/releases").listdir()
    assert releases
    for release in releases:
        assert oct(host.file(f"/var/lib/cpudeploy/rag/releases/{release}").mode) == "0o600"
    (key,) = host.check_output("find /var/lib/cpudeploy/rag/secrets -type f").split()
    assert oct(host.file(key).mode) == "0o600"
    assert host.file("/etc/docker/certs.d").is_directory
    assert host.check_output("find /var/lib/cpudeploy/weights/partial -type f") == ""


@pytest.mark.parametrize("name", HOSTS)
def test_the_model_answers_only_with_its_key(site: Site, name: str):
    assert '"id":"tiny"' in site.ask(name, 8100, site.api_key).replace('": "', '":"')
    assert "tiny" not in site.ask(name, 8100)


@pytest.mark.parametrize("name", HOSTS)
def test_the_container_has_the_least_it_needs(site: Site, name: str):
    found = site.inspect(name, CONTAINER)
    host = found["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["ReadonlyRootfs"] is True
    assert host["Memory"] == host["MemorySwap"] > 0
    assert host["CpusetCpus"] == "0-1"
    assert host["PidsLimit"] > 0
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    assert host["LogConfig"]["Config"] == {"max-size": "10m", "max-file": "3"}
    assert host["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8100"}]}
    assert set(found["NetworkSettings"]["Networks"]) == {"rag_pub", "rag_int"}
    mounts = {mount["Destination"]: mount["RW"] for mount in found["Mounts"]}
    assert mounts == {"/models": False, "/run/secrets/api_key": False}


@pytest.fixture(scope="module")
def said(site: Site) -> dict[str, str]:
    """What commands print."""
    return {
        "plan": site.run("plan", "--format", "json"),
        "plan of a bare host": site.bare_plan,
        "apply": site.applied,  # type: ignore[attr-defined]
        "events": site.run("apply", "--format", "json"),
        "facts": site.run("facts", "--format", "json"),
        "logs": site.run("logs", "tiny"),
        "status": site.run("status", "--format", "json"),
    }


@pytest.mark.parametrize("name", HOSTS)
def test_a_planted_secret_is_nowhere_to_be_seen(site: Site, said: dict[str, str], name: str):
    host = site.on(name)
    secrets = [site.api_key, site.lab.registry.password, site.lab.sudo_password]
    seen = {
        **said,
        "inspect": json.dumps(site.inspect(name, CONTAINER)),
        "processes": host.check_output("ps axww -o args"),
        "environments": host.check_output("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' || true"),
        "engine logs": host.check_output("docker logs %s 2>&1", CONTAINER),
        "journal": host.check_output("journalctl --no-pager 2>/dev/null | tail -n 2000 || true"),
        "releases": host.check_output("cat /var/lib/cpudeploy/rag/releases/*"),
        "root's docker login": host.check_output("cat /root/.docker/config.json 2>/dev/null || true"),
    }
    found = [(where, secret[:7]) for where, text in seen.items() for secret in secrets if secret in text]
    assert not found


def test_one_changed_line_is_shown_as_a_field_and_applied(site: Site):
    site.manifest["models"]["tiny"]["context"] = 1024
    shown = site.run("plan", "--detailed-exitcode", code=2)
    assert "512 → 1024" in shown
    site.run("apply")
    assert site.settled()
    for name in HOSTS:
        command = site.inspect(name, CONTAINER)["Config"]["Cmd"]
        assert command[command.index("--ctx-size") + 1] == "1024"


def test_chat_prints_an_answer_from_each_host(site: Site):
    answers = site.run("chat", "tiny", "Hello", "--max-tokens", "16")
    assert all(name in answers for name in HOSTS)
    assert len(answers.replace("path12", "").replace("path13", "").strip()) > 0


def test_a_new_version_that_fails_leaves_the_old_one_serving(site: Site):
    before = {name: site.inspect(name, CONTAINER)["Id"] for name in HOSTS}
    site.manifest["models"]["tiny"]["args"] = ["--no-such-flag"]
    shown = site.run("apply", code=7)
    assert "does not know --no-such-flag" in shown
    assert "exit code 1" in shown
    assert "the old version serves again" in shown
    assert {name: site.inspect(name, CONTAINER)["Id"] for name in HOSTS} == before
    for name in HOSTS:
        assert "tiny" in site.ask(name, 8100, site.api_key)
    del site.manifest["models"]["tiny"]["args"]
    assert site.settled()


def test_another_key_is_a_change_and_the_old_key_no_longer_opens(site: Site):
    old = site.api_key
    (site.folder / "api-key").write_text("planted-another-key-123")
    shown = site.run("plan", "--detailed-exitcode", code=2)
    assert "api_key" in shown
    assert "planted" not in shown
    site.run("apply")
    assert "tiny" in site.ask(HOSTS[0], 8100, site.api_key)
    assert "tiny" not in site.ask(HOSTS[0], 8100, old)
    assert site.settled()


def test_a_container_stopped_by_hand_is_started_and_proven_again(site: Site):
    identity = site.inspect(HOSTS[0], CONTAINER)["Id"]
    site.on(HOSTS[0]).check_output("docker stop %s", CONTAINER)
    assert "stopped" in site.run("status", code=1)
    site.run("apply")
    assert site.inspect(HOSTS[0], CONTAINER)["Id"] == identity
    assert "serving" in site.run("status")


def test_a_port_that_somebody_else_holds_is_told_before_anything_changes(site: Site):
    site.manifest["models"]["tiny"]["port"] = 22
    shown = site.run("plan", code=1)
    assert "port 22 is taken" in shown
    site.manifest["models"]["tiny"]["port"] = 8100


def test_an_unreachable_host_does_not_stop_the_other(site: Site):
    site.lab.hosts[HOSTS[1]].stop()
    try:
        assert HOSTS[1] in site.run("status", code=4)
        site.manifest["models"]["tiny"]["context"] = 768
        site.run("apply", code=4)
        command = site.inspect(HOSTS[0], CONTAINER)["Config"]["Cmd"]
        assert command[command.index("--ctx-size") + 1] == "768"
    finally:
        site.lab.hosts[HOSTS[1]].start()
    site.run("apply")
    assert site.settled()


def test_destroy_takes_away_what_is_ours_and_nothing_else(site: Site, tmp_path: Path):
    host = site.on(HOSTS[0])
    image = site.inspect(HOSTS[0], CONTAINER)["Image"]
    host.check_output("docker create --name theirs %s --help", image)
    site.run("destroy", code=64)
    site.run("destroy", "--yes")
    assert host.check_output("docker ps -a --format '{{.Names}}'") == "theirs"
    assert "rag_" not in host.check_output("docker network ls --format '{{.Name}}'")
    assert host.file("/var/lib/cpudeploy").listdir() == ["audit.jsonl"]
    assert not host.file("/etc/docker/daemon.json").exists
    assert not host.file("/etc/docker/certs.d").exists
    assert host.service("docker").is_running
    assert "no changes" in site.run("destroy", "--yes")
