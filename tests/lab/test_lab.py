"""The lab itself: hosts as asked for, faults, registries, and one lab leaving another alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.lab import Lab, engine, llama
from tests.lab.hosts import Host, HostSpec
from tests.lab.shell import run

pytestmark = pytest.mark.lab

HOSTS = (
    HostSpec("open", "bookworm", quota=0.5),
    HostSpec("asks", "trixie", sudo="password", cpus="0", memory="512m"),
    HostSpec("light", "bookworm", light=True),
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab = Lab("selftest", "10.77.201.0/24")
    lab.up(HOSTS)
    yield lab
    lab.down()


def ssh(
    lab: Lab, host: Host, command: str, user: str = "ops", stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    strict = ["-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={lab.known_hosts}"]
    quick = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=2"]
    target = ["-i", str(lab.key), f"{user}@{host.address}", command]
    return run(["ssh", "-F", "none", *strict, *quick, *target], stdin=stdin, check=False)


@pytest.mark.parametrize("name", [spec.name for spec in HOSTS])
@pytest.mark.parametrize("user", ["ops", "root"])
def test_hosts_take_the_key_and_show_the_known_host_key(lab: Lab, name: str, user: str) -> None:
    assert ssh(lab, lab.hosts[name], "id -un; hostname", user).stdout.split() == [user, name]


def test_sudo_asks_where_it_should(lab: Lab) -> None:
    assert ssh(lab, lab.hosts["open"], "sudo -n id -u").stdout.strip() == "0"
    assert ssh(lab, lab.hosts["asks"], "sudo -n id -u").returncode != 0
    answered = ssh(lab, lab.hosts["asks"], "sudo -S -p '' id -u", stdin=lab.sudo_password + "\n")
    assert answered.stdout.strip() == "0"


def test_hosts_run_systemd_and_no_engine(lab: Lab) -> None:
    state = ssh(lab, lab.hosts["open"], "systemctl is-system-running --wait; command -v docker")
    assert state.stdout.strip() == "running"


def test_limits_are_set(lab: Lab) -> None:
    form = "{{.HostConfig.NanoCpus}} {{.HostConfig.CpusetCpus}} {{.HostConfig.Memory}}"
    shown = {
        name: engine.docker("inspect", "--format", form, host.container) for name, host in lab.hosts.items()
    }
    assert shown["open"].split() == ["500000000", "0"]
    assert shown["asks"].split() == ["0", "0", str(512 << 20)]
    assert ssh(lab, lab.hosts["asks"], "nproc").stdout.strip() == "1"


def test_faults_come_and_go(lab: Lab) -> None:
    host = lab.hosts["open"]
    host.disconnect()
    assert "timed out" in ssh(lab, host, "true").stderr
    host.reconnect()
    host.pause()
    assert ssh(lab, host, "true").returncode == 255
    host.unpause()
    host.restart()
    assert ssh(lab, host, "true").returncode == 0


def test_both_registries_have_the_server_image_and_one_asks_for_a_password(lab: Lab) -> None:
    path = "/v2/ggml-org/llama.cpp/tags/list"
    plain = run(["curl", "-sf", "--noproxy", "*", f"http://{lab.registry.plain}{path}"]).stdout
    tls = [
        "curl",
        "-s",
        "--noproxy",
        "*",
        "--cacert",
        str(lab.registry.ca),
        f"https://{lab.registry.tls}{path}",
    ]
    assert "UNAUTHORIZED" in run(tls).stdout
    login = f'user = "{lab.registry.user}:{lab.registry.password}"'
    assert run([*tls, "--config", "-"], stdin=login).stdout == plain
    assert "server-b" in plain


def test_another_version_of_an_image_has_another_digest(lab: Lab) -> None:
    engine.derive(llama.IMAGE, "lab-selftest:next", 'ENTRYPOINT ["/bin/sh"]', "LABEL next=1")
    try:
        digests = {
            lab.registry.push(image, "selftest/server:1") for image in (llama.IMAGE, "lab-selftest:next")
        }
    finally:
        engine.docker("rmi", "lab-selftest:next")
    assert len(digests) == 2


def test_hosts_come_and_go_and_keep_their_address_and_key(lab: Lab) -> None:
    (host,) = lab.add(HostSpec("late"))
    assert ssh(lab, host, "touch mark; hostname").stdout.strip() == "late"
    (again,) = lab.add(HostSpec("late", sudo="password"))
    assert again.address == host.address
    assert ssh(lab, again, "test -e mark").returncode == 1
    lab.remove("late")
    assert "late" not in Lab("selftest").hosts


def test_down_leaves_other_labs_alone_and_can_be_said_twice(lab: Lab) -> None:
    other = Lab("selftest2", "10.77.202.0/24").up([HostSpec("only", light=True)], services=False)
    other.down()
    other.down()
    assert not other.state.exists()
    assert engine.docker("ps", "--all", "--quiet", "--filter", "label=cpudeploy.lab=selftest2") == ""
    assert ssh(lab, lab.hosts["light"], "true").returncode == 0
