"""The engine's own settings on a real host: the owner's stay as they were, ours come, are shared, and go, and no
container ends for it, whatever happens to the engine.

The host is bare in earnest: not even curl is on it.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from tests.acceptance.site import Site, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.ready import Command

pytestmark = pytest.mark.lab

SUITE = "trixie"
"""Another file has the same tests for another Debian, and so another engine."""
FILE = "/etc/docker/daemon.json"
PLANTED = "planted-Zq7wVb"
THEIRS = {
    "labels": [f"note={PLANTED}"],
    "insecure-registries": ["theirs.corp:5000"],
    "data-root": "/var/lib/docker/moved",
    "log-level": "info",
}
TUNED = ("--playbooks", "playbooks")
IMAGE = "cd / && tar -ch bin/sh bin/sleep $(ldd /bin/sh /bin/sleep | grep -o '/[^ ]*' | sort -u) 2>/dev/null"


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A host whose owner keeps daemon.json elsewhere, readable by few, with something secret in it."""
    name = f"settings-{request.module.SUITE}"
    lab.add(HostSpec(name, request.module.SUITE))
    try:
        site = make_site(lab, tmp_path_factory.mktemp("settings"), name)
        site.manifest["models"]["tiny"]["cpus"] = "0-0"
        host = on(site)
        assert not host.exists("curl")
        host.check_output("mkdir -p /etc/docker /srv && ln -s /srv/daemon.json %s", FILE)
        host.check_output(
            "printf %%s %s >/srv/daemon.json && chmod 0640 /srv/daemon.json", json.dumps(THEIRS)
        )
        site.bare_plan = site.run("plan", "-v", "--format", "json")
        site.run("apply")
        yield site
    finally:
        lab.remove(name)


def host_of(site: Site) -> str:
    return next(iter(site.manifest["hosts"]))


def on(site: Site) -> testinfra.host.Host:
    return site.on(host_of(site))


def settings(site: Site) -> Any:
    return json.loads(on(site).check_output("cat %s", FILE))


def allowed(site: Site) -> list[str]:
    text = on(site).check_output("docker info --format '{{json .RegistryConfig.IndexConfigs}}'")
    return [name for name, index in json.loads(text).items() if not index["Secure"]]


def wait_for(process: Command, text: str) -> None:
    """Read what the command prints until a line holds `text`."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended before it said {text!r}")


def facts(site: Site) -> Any:
    return site.json("facts")[host_of(site)]


def test_ours_is_added_and_theirs_stays_as_it_was(site: Site):
    plain = site.lab.registry.plain
    assert settings(site) == THEIRS | {"insecure-registries": ["theirs.corp:5000", plain]}
    assert {plain, "theirs.corp:5000"} <= set(allowed(site))
    host = on(site)
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
    host = on(site)
    host.check_output("printf %%s %s >/srv/daemon.json && systemctl reload docker", json.dumps(THEIRS))
    site.run("apply")
    assert site.lab.registry.plain in allowed(site)
    assert site.settled()


def test_an_engine_that_hangs_is_not_planned_as_an_empty_one(site: Site):
    host = on(site)
    host.check_output("kill -STOP $(cat /var/run/docker.pid)")
    try:
        told = site.run("plan", code=1)
    finally:
        host.check_output("kill -CONT $(cat /var/run/docker.pid)")
    assert "does not answer" in told
    assert "docker.io" not in told


def test_a_stopped_engine_is_started_and_the_same_apply_goes_on_whoever_else_can_not_be_reached(site: Site):
    host = on(site)
    host.check_output("systemctl stop docker.socket docker")
    site.manifest["hosts"]["gone"] = {"address": site.lab.hosts[host_of(site)].address, "ssh": {"port": 9}}
    try:
        told = site.run("apply", code=4)
    finally:
        del site.manifest["hosts"]["gone"]
    assert "start the installed engine" in told
    assert host.service("docker").is_running
    assert site.settled()


def tune(site: Site, **settings: Any) -> None:
    """A playbook of the user's own that the host names."""
    folder = site.folder / "playbooks"
    folder.mkdir(exist_ok=True)
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    playbook = {"name": "tuned", "kind": "host", "steps": [{"docker_daemon": {"settings": named}}]}
    (folder / "tuned.yaml").write_text(yaml.safe_dump(playbook))
    site.manifest["hosts"][host_of(site)]["playbooks"] = ["tuned"]


def applied(site: Site) -> str:
    """Apply what is tuned; then nothing is left to do."""
    told = site.run("apply", *TUNED)
    assert "no changes" in site.run("plan", *TUNED, "--detailed-exitcode")
    return told


def lives(site: Site) -> dict[str, str]:
    """When each running container was started."""
    ids = on(site).check_output("docker ps -q").split()
    text = on(site).check_output(
        f"docker inspect --format '{{{{.Name}}}} {{{{.State.StartedAt}}}}' {' '.join(ids)}"
    )
    return dict(line.split() for line in text.splitlines())


def engine(site: Site) -> str:
    """The engine's process: another one after a restart."""
    return on(site).check_output("cat /var/run/docker.pid")


@pytest.fixture(scope="module")
def running(site: Site) -> dict[str, str]:
    """A model of ours, and a container that is none of our business: both outlive everything that follows."""
    host = on(site)
    host.check_output(f"{IMAGE} | docker import - theirs")
    host.check_output("docker run -d --name theirs --restart unless-stopped theirs sleep 86400")
    found = lives(site)
    assert sorted(found) == ["/rag_tiny_0", "/theirs"]
    return found


def test_what_the_engine_takes_by_a_reload_restarts_nothing(site: Site, running: dict[str, str]):
    process = engine(site)
    tune(site, debug=True, max_concurrent_downloads=2)
    assert "nothing restarts" in site.run("plan", *TUNED)
    applied(site)
    assert settings(site)["debug"] is True
    assert on(site).check_output("docker info --format '{{.Debug}}'") == "true"
    assert (engine(site), lives(site)) == (process, running)


def test_all_containers_outlive_a_restart_of_the_engine(site: Site, running: dict[str, str]):
    process = engine(site)
    tune(site, log_level="warn")
    told = site.run("plan", *TUNED, "-v")
    assert "containers keep running" in told
    assert "another value" in told and THEIRS["log-level"] not in told.split()
    applied(site)
    assert engine(site) != process
    assert lives(site) == running
    found = settings(site)
    assert (found["log-level"], found["live-restore"]) == ("warn", True)
    assert "debug" not in found
    assert on(site).check_output("docker info --format '{{.Debug}}'") == "false"
    assert "tiny" in site.ask(host_of(site), 8100, site.api_key)


def test_two_deployments_can_not_want_different_values(site: Site, running: dict[str, str], tmp_path: Path):
    other = make_site(site.lab, tmp_path, host_of(site), name="other")
    other.manifest["models"] = {}
    tune(other, log_level="error")
    told = other.run("plan", *TUNED, code=1)
    assert '"warn" for deployment rag' in told


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"no_such_setting": 1}, "no-such-setting"),
        ({"exec_opts": ["native.cgroupdriver=planned"]}, "native.cgroupdriver"),
    ],
    ids=["refused", "deadly"],
)
def test_a_broken_setting_is_taken_back_and_all_containers_run(
    site: Site, running: dict[str, str], settings_: dict[str, Any], words: str
):
    before = on(site).check_output("cat %s", FILE)
    tune(site, log_level="warn", **settings_)
    told = site.run("apply", *TUNED, code=7)
    assert words in told
    assert on(site).check_output("cat %s", FILE) == before
    assert on(site).file(FILE).is_symlink
    assert lives(site) == running
    tune(site, log_level="warn")
    assert "no changes" in site.run("plan", *TUNED, "--detailed-exitcode")


@pytest.mark.parametrize("moment", ["run reload-docker", "run restart-docker", "commit guard"])
def test_killed_in_mid_edit_the_host_puts_it_back_by_itself(site: Site, running: dict[str, str], moment: str):
    before = on(site).check_output("cat %s", FILE)
    level = "warn" if settings(site)["log-level"] == "error" else "error"
    tune(site, log_level=level, debug=level == "error")
    process = site.start("apply", *TUNED)
    wait_for(process, moment)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    for _ in range(120):
        if on(site).run("test -e /var/lib/cpudeploy/guard/docker_daemon/rc").rc == 0:
            break
        time.sleep(1)
    assert on(site).check_output("cat %s", FILE) == before
    assert lives(site) == running
    applied(site)
    assert lives(site) == running


def test_the_last_deployment_to_leave_puts_everything_back(
    site: Site, running: dict[str, str], tmp_path: Path
):
    other = make_site(site.lab, tmp_path, host_of(site), name="other")
    other.manifest["models"]["tiny"] |= {"port": 8101, "cpus": "1-1"}
    other.run("apply")
    assert other.settled()
    host, plain = on(site), site.lab.registry.plain
    folder = f"/etc/docker/certs.d/{site.lab.registry.tls}"
    assert sorted(host.file(folder).listdir()) == ["cpudeploy-other.crt", "cpudeploy-rag.crt"]
    site.run("destroy", "--yes", *TUNED)
    assert settings(site)["log-level"] == THEIRS["log-level"]
    assert lives(site)["/theirs"] == running["/theirs"]
    assert plain in allowed(site)
    assert host.file(folder).listdir() == ["cpudeploy-other.crt"]
    assert other.settled()
    other.run("destroy", "--yes")
    assert settings(site) == THEIRS
    assert host.file(FILE).is_symlink
    assert plain not in allowed(site)
    assert not host.file(folder).exists
    assert not host.file("/var/lib/cpudeploy/host.json").exists
    assert not host.file("/var/lib/cpudeploy/before.json").exists
    assert not host.file("/var/lib/cpudeploy/kept/daemon.json").exists
    assert lives(site) == {"/theirs": running["/theirs"]}
