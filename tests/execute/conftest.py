"""Shared by the tests of this room: waiting, and real hosts with an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, connect
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Host, Registry, Ssh, Sudo
from cpudeploy.types.plan import Plan
from tests.lab import Lab
from tests.lab.demo import write_ssh_config

ENGINE = """
mkdir -p "/etc/docker/certs.d/$1"
cat >"/etc/docker/certs.d/$1/ca.crt"
echo "{\\"insecure-registries\\": [\\"$2\\"]}" >/etc/docker/daemon.json.new
cmp -s /etc/docker/daemon.json.new /etc/docker/daemon.json && exit 0
mv /etc/docker/daemon.json.new /etc/docker/daemon.json
. /etc/os-release
[ "$VERSION_ID" -lt 13 ] || cli=docker-cli
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io $cli curl >/dev/null
systemctl restart docker
"""


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Wait until something is so; fails the test when it never is."""

    def wait(so: Callable[[], bool]) -> None:
        give_up = time.monotonic() + 30
        while not so():
            assert time.monotonic() < give_up, "waited in vain"
            time.sleep(0.02)

    return wait


def install_engine(lab: Lab, *names: str) -> None:
    """Give hosts the engine of their distribution, which knows the lab's registries."""
    for name in names:
        ca = (lab.state / "ca.pem").read_text()
        words = ["sh", "-ec", ENGINE, "sh", lab.registry.tls, lab.registry.plain]
        done = lab.hosts[name].exec(words, stdin=ca)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def engines(lab: Lab) -> None:
    """The lab's two own hosts have an engine. One file's alone: other workers may be at it as well."""
    install_engine(lab, "deb12", "deb13")


@pytest.fixture(scope="session")
def secrets(lab: Lab) -> Secrets:
    """References resolve in the lab's state folder."""
    (lab.state / "key").write_text("lab-api-key")
    return Secrets(lab.state)


@pytest.fixture(params=["deb12", "deb13"])
def connection(
    request: pytest.FixtureRequest, lab: Lab, engines: None, secrets: Secrets
) -> Iterator[Connection]:
    """A connection to each host, as a user who needs sudo."""
    open_connection = reach(lab, request.param, secrets)
    yield open_connection
    open_connection.close()


def reach(lab: Lab, name: str, secrets: Secrets) -> Connection:
    """A new connection to a host of the lab."""
    config = write_ssh_config(lab)
    password = SecretRef(kind="from_file", name="sudo-password")
    ssh = Ssh(address=lab.hosts[name].address, user="ops", config=str(config))
    return connect(Host(name=name, ssh=ssh, sudo=Sudo(password=password)), secrets)


def lab_plan(lab: Lab) -> Plan:
    """An empty plan that knows the lab's registry with a login."""
    registry = Registry(
        scope=lab.registry.tls,
        username=lab.registry.user,
        password=SecretRef(kind="from_file", name="registry-password"),
    )
    return Plan(deployment="rag", base=str(lab.state), origin="", registries=(registry,), hosts={})


def artifact(name: str) -> Path:
    """A model of the lab's cache."""
    from tests.lab import models

    return Path(getattr(models, name)())
