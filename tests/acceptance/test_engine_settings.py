"""The engine's own settings on a real host: the owner's stay as they were, ours come, are shared, and go.

The host is bare in earnest: not even curl is on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.site import Site, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOST = "settings"
FILE = "/etc/docker/daemon.json"
PLANTED = "planted-Zq7wVb"
THEIRS = {
    "labels": [f"note={PLANTED}"],
    "insecure-registries": ["theirs.corp:5000"],
    "data-root": "/var/lib/docker/moved",
}


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def site(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A host whose owner keeps daemon.json elsewhere, readable by few, with something secret in it."""
    lab.add(HostSpec(HOST, request.param))
    try:
        site = make_site(lab, tmp_path_factory.mktemp("settings"), HOST)
        site.manifest["models"]["tiny"]["cpus"] = "0-0"
        host = site.on(HOST)
        assert not host.exists("curl")
        host.check_output("mkdir -p /etc/docker /srv && ln -s /srv/daemon.json %s", FILE)
        host.check_output(
            "printf %%s %s >/srv/daemon.json && chmod 0640 /srv/daemon.json", json.dumps(THEIRS)
        )
        site.bare_plan = site.run("plan", "-v", "--format", "json")
        site.run("apply")
        yield site
    finally:
        lab.remove(HOST)


def settings(site: Site) -> Any:
    return json.loads(site.on(HOST).check_output("cat %s", FILE))


def allowed(site: Site) -> list[str]:
    text = site.on(HOST).check_output("docker info --format '{{json .RegistryConfig.IndexConfigs}}'")
    return [name for name, index in json.loads(text).items() if not index["Secure"]]


def facts(site: Site) -> Any:
    return json.loads(site.run("facts", "--format", "json"))[HOST]


def test_ours_is_added_and_theirs_stays_as_it_was(site: Site):
    plain = site.lab.registry.plain
    assert settings(site) == THEIRS | {"insecure-registries": ["theirs.corp:5000", plain]}
    assert {plain, "theirs.corp:5000"} <= set(allowed(site))
    host = site.on(HOST)
    assert host.file(FILE).is_symlink
    assert oct(host.file("/srv/daemon.json").mode) == "0o640"
    assert site.settled()


def test_what_is_in_it_is_in_no_plan_and_no_facts(site: Site):
    for shown in (site.bare_plan, site.run("facts", "--format", "json")):
        assert PLANTED not in shown


def test_the_disk_of_the_engines_real_folder_is_known(site: Site):
    found = facts(site)
    assert found["engine"]["root"] == THEIRS["data-root"]
    assert found["disks"][THEIRS["data-root"]]["free"] > 0


def test_a_setting_lost_by_hand_comes_back(site: Site):
    host = site.on(HOST)
    host.check_output("printf %%s %s >/srv/daemon.json && systemctl reload docker", json.dumps(THEIRS))
    site.run("apply")
    assert site.lab.registry.plain in allowed(site)
    assert site.settled()


def test_an_engine_that_hangs_is_not_planned_as_an_empty_one(site: Site):
    host = site.on(HOST)
    host.check_output("kill -STOP $(cat /var/run/docker.pid)")
    try:
        told = site.run("plan", code=1)
    finally:
        host.check_output("kill -CONT $(cat /var/run/docker.pid)")
    assert "does not answer" in told
    assert "docker.io" not in told


def test_a_stopped_engine_is_started_and_the_same_apply_goes_on(site: Site):
    host = site.on(HOST)
    host.check_output("systemctl stop docker.socket docker")
    told = site.run("apply")
    assert "start the installed engine" in told
    assert host.service("docker").is_running
    assert site.settled()


def test_the_last_deployment_to_leave_puts_everything_back(site: Site, tmp_path: Path):
    other = make_site(site.lab, tmp_path, HOST, name="other")
    other.manifest["models"]["tiny"] |= {"port": 8101, "cpus": "1-1"}
    other.run("apply")
    assert other.settled()
    host, plain = site.on(HOST), site.lab.registry.plain
    folder = f"/etc/docker/certs.d/{site.lab.registry.tls}"
    assert sorted(host.file(folder).listdir()) == ["cpudeploy-other.crt", "cpudeploy-rag.crt"]
    site.run("destroy", "--yes")
    assert plain in allowed(site)
    assert host.file(folder).listdir() == ["cpudeploy-other.crt"]
    assert other.settled()
    other.run("destroy", "--yes")
    assert settings(site) == THEIRS
    assert host.file(FILE).is_symlink
    assert plain not in allowed(site)
    assert not host.file(folder).exists
    assert not host.file("/var/lib/cpudeploy/host.json").exists
