"""A new version takes over on real hosts, on both engines: who answers meanwhile, and who brings the old one
back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.acceptance.client import SteadyClient
from tests.acceptance.site import Site, bare_hosts, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOSTS = ("rep12", "rep13")
NAME = "rag_tiny_0"
PORT = 8100
WAYS = ("beside", "stop-first")


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two engines that serve the tiny model to the lab."""
    bare_hosts(lab, HostSpec("rep12", "bookworm", engine=True), HostSpec("rep13", "trixie", engine=True))
    site = make_site(lab, tmp_path_factory.mktemp("site"), *HOSTS)
    site.manifest["models"]["tiny"]["listen"] = str(lab.subnet)
    site.run("apply")
    yield site
    for host in HOSTS:
        lab.remove(host)


def wish(site: Site, way: str, **changes: object) -> None:
    """Another context, to be brought about in a way."""
    model = site.manifest["models"]["tiny"]
    model["context"] = 1024 if model["context"] == 512 else 512
    model.pop("args", None)
    model.update(replace=way, **changes)


def serving(site: Site) -> dict[str, str]:
    """Host → id of the one container there is."""
    found = {}
    for host in HOSTS:
        names = site.on(host).check_output("docker ps -a --format '{{.Names}}'").split()
        assert names == [NAME], (host, names)
        found[host] = str(site.inspect(host, NAME)["Id"])
    return found


def clients(site: Site, stack: ExitStack) -> dict[str, SteadyClient]:
    return {host: stack.enter_context(SteadyClient(site.lab.hosts[host].address, PORT)) for host in HOSTS}


def test_beside_nobody_misses_the_old_one_while_the_new_one_starts(site: Site):
    before = serving(site)
    wish(site, "beside")
    failed = {}
    with ExitStack() as stack:
        asking = clients(site, stack)
        process = site.start("apply")
        assert process.stdout is not None
        for line in process.stdout:
            for host in HOSTS:
                if line.startswith(host) and f"disconnect {NAME} from rag_int" in line:
                    failed[host] = asking[host].seen.failed
        assert process.wait(timeout=300) == 0
        answered = {host: client.seen.answered for host, client in asking.items()}
        for host, client in asking.items():
            client.wait_for_answers(answered[host] + 5)
    assert failed == dict.fromkeys(HOSTS, 0)
    assert not set(before.values()) & set(serving(site).values())
    assert site.settled()


def test_stop_first_the_new_one_serves_in_the_end(site: Site):
    before = serving(site)
    wish(site, "stop-first")
    assert "stop first (replace: stop-first)" in site.run("plan")
    site.run("apply")
    assert not set(before.values()) & set(serving(site).values())
    assert "tiny" in site.ask_lab("rep12", PORT) and "tiny" in site.ask_lab("rep13", PORT)
    assert site.settled()


@pytest.mark.parametrize("way", WAYS)
def test_the_old_one_serves_when_the_new_one_does_not(site: Site, way: str):
    before, wished = serving(site), dict(site.manifest["models"]["tiny"])
    wish(site, way, args=[f"--no-such-{way}"])
    with ExitStack() as stack:
        asking = clients(site, stack)
        told = site.run("apply", code=7)
        if way == "beside":
            assert {host: client.seen.failed for host, client in asking.items()} == dict.fromkeys(HOSTS, 0)
    assert "the old version serves again" in told
    assert serving(site) == before
    for host in HOSTS:
        assert "tiny" in site.ask_lab(host, PORT)
        assert sorted(site.inspect(host, NAME)["NetworkSettings"]["Networks"]) == ["rag_int", "rag_pub"]
    site.manifest["models"]["tiny"] = wished
    assert site.settled()


@pytest.mark.parametrize(
    ("way", "moment"),
    [("stop-first", f"create {NAME}"), ("beside", f"connect {NAME} to rag_pub")],
)
def test_the_controller_is_killed_and_the_host_itself_brings_the_old_one_back(
    site: Site, way: str, moment: str
):
    """Nobody comes back: what the keeper does at the end of its input is all that happens."""
    before = serving(site)
    wish(site, way)
    process = site.start("apply", "--limit", "rep12")
    assert process.stdout is not None
    for line in process.stdout:
        if moment in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    wait_until_it_serves(site, "rep12", before["rep12"])
    site.run("apply")
    assert not set(before.values()) & set(serving(site).values())
    assert site.settled()


def wait_until_it_serves(site: Site, host: str, container: str) -> None:
    """Until that very container answers under the name again, alone."""
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up:
        listed = site.on(host).run("docker ps -a --no-trunc --format '{{.ID}} {{.Names}} {{.State}}'")
        answer = site.ask_lab(host, PORT)
        if listed.stdout.split() == [container, NAME, "running"] and "tiny" in answer:
            return
        time.sleep(1)
    raise AssertionError(f"the old one does not serve again: {listed.stdout} {answer}")
