"""What fails its gate is undone, told, held and tried again only for a reason; and there is a way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.site import Site, bare_hosts, make_site, nobody_to_ask
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOST, CONTAINER = "rel12", "rag_tiny_0"
BROKEN = "--no-such-flag"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host that serves the tiny model, as its second release has it."""
    bare_hosts(lab, HostSpec(HOST, "bookworm", engine=True))
    site = make_site(lab, tmp_path_factory.mktemp("site"), HOST)
    site.run("apply")
    tiny(site)["context"] = 1024
    site.run("apply")
    yield site
    lab.remove(HOST)


def tiny(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = site.manifest["models"]["tiny"]
    return found


def serves(site: Site, context: int) -> str:
    """The container that does, by its id; it answers and nothing is left beside it."""
    names = site.on(HOST).check_output("docker ps -a --format '{{.Names}}'").split()
    assert names == [CONTAINER]
    assert "tiny" in site.ask(HOST, 8100, site.api_key)
    found = site.inspect(HOST, CONTAINER)
    command = found["Config"]["Cmd"]
    assert command[command.index("--ctx-size") + 1] == str(context)
    assert found["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
    return str(found["Id"])


def history(site: Site) -> list[dict[str, Any]]:
    (host,) = site.json("history")["hosts"]
    releases: list[dict[str, Any]] = host["releases"]
    return releases


def test_what_fails_is_undone_told_and_held(site: Site):
    served = serves(site, 1024)
    tiny(site)["args"] = [BROKEN]
    said = site.run("apply", code=7)
    assert "the old version serves again" in said
    assert "cause" in said and BROKEN in said
    assert "do " in said
    assert serves(site, 1024) == served
    planned = site.run("plan", code=1)
    assert "held: it failed its gate" in planned and "--retry" in planned and "1 model held" in planned
    (held,) = site.json("plan", code=1)["hosts"][HOST]["held"].values()
    assert "--retry" in held
    again = site.run("apply", code=1)
    assert "failed its gate" in again
    assert serves(site, 1024) == served
    assert len(history(site)) == 3


def test_another_line_is_tried_and_so_is_what_somebody_insists_on(site: Site):
    served = serves(site, 1024)
    tiny(site)["args"] = [f"{BROKEN}-either"]
    site.run("apply", code=7)
    site.run("apply", code=1)
    site.run("apply", "--retry", code=7)
    assert serves(site, 1024) == served


def test_without_the_broken_line_nothing_is_to_be_done(site: Site):
    served = serves(site, 1024)
    tiny(site)["args"] = []
    site.run("apply")
    assert serves(site, 1024) == served
    assert site.settled()


def test_back_without_registry_or_hub_and_forth_again(site: Site):
    with nobody_to_ask(site, HOST):
        shown = site.run("rollback", "--dry-run")
        assert "1024 → 512" in shown
        serves(site, 1024)
        said = site.run("rollback")
        assert "the next apply brings back" in said
        serves(site, 512)
        site.run("rollback", "0042-nothing", code=3)
    newest, *_, first = history(site)
    assert newest["current"] and newest["instances"][0]["became"] == "serving"
    assert first["instances"][0]["became"] == "proven"
    site.run("apply")
    serves(site, 1024)


def test_history_tells_all_of_it(site: Site):
    told = site.run("history")
    for part in ("rel12", "7 releases", "serving", "proven", "failed", "context 512 → 1024", "by ", "ago"):
        assert part in told, told


def test_what_is_not_there_any_more_is_named(site: Site):
    """The first release's weights are taken away by hand: there is no way back to it, and nothing is touched."""
    served = serves(site, 1024)
    host = site.on(HOST)
    (tree,) = host.check_output("ls /var/lib/cpudeploy/weights/trees").split()
    folder = "/var/lib/cpudeploy/weights/trees"
    host.check_output("mv %s %s", f"{folder}/{tree}", f"{folder}/elsewhere")
    try:
        assert "apply from the manifest of that time" in site.run("rollback", "1", code=3)
        assert "no way back" in site.run("history")
    finally:
        host.check_output("mv %s %s", f"{folder}/elsewhere", f"{folder}/{tree}")
    assert serves(site, 1024) == served


def test_another_manifest_of_the_name_removes_nothing_of_this_one(site: Site):
    served = serves(site, 1024)
    elsewhere = site.folder / "copy"
    elsewhere.mkdir()
    for name in ("api-key", "registry-password"):
        (elsewhere / name).write_text((site.folder / name).read_text())
    copy = Site(lab=site.lab, folder=elsewhere, manifest=site.manifest)
    said = copy.run("destroy", "--yes", code=1)
    assert "left alone" in said and "--adopt" in said
    assert serves(site, 1024) == served
    copy.run("destroy", "--yes", "--adopt")
    assert site.on(HOST).check_output("docker ps -aq") == ""
