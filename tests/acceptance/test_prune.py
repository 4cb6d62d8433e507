"""Two deployments on one host, both upgraded; one is pruned: what is freed, and what the other still has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.site import TINY_FILE, Site, bare_hosts, make_site, nobody_to_ask
from tests.lab import engine, llama, models
from tests.lab.hosts import HostSpec
from tests.lab.lab import LLAMA_REPOSITORY, Lab

pytestmark = pytest.mark.lab

HOST = "prune13"
WEIGHTS = "/var/lib/cpudeploy/weights"
FOREIGN = "theirs:kept"
MINE, THEIRS = "rag", "other"


def image(number: int) -> str:
    return f"{llama.IMAGE}-p{number}"


def repo(number: int) -> str:
    return f"cpudeploy/prune-{number}-GGUF"


class Upgrades:
    """`mine` went through 1, 2, 3, 4; `theirs` through 1, 4. Each number is an image and a model of its own."""

    def __init__(self, lab: Lab, mine: Site, theirs: Site) -> None:
        self.mine, self.theirs = mine, theirs
        self.digests = {number: self._publish(lab, number) for number in (1, 2, 3, 4)}
        mine.manifest["models"]["tiny"] |= {"cpus": "0-0"}
        theirs.manifest["models"]["tiny"] |= {"cpus": "1-1", "port": 8200}

    def _publish(self, lab: Lab, number: int) -> str:
        folder = lab.hub.root / repo(number) / "files"
        folder.mkdir(parents=True, exist_ok=True)
        models.write_tiny(folder / TINY_FILE, seed=number)
        engine.derive(llama.IMAGE, f"prune:{number}", f"LABEL prune={number}")
        try:
            return lab.registry.push(f"prune:{number}", f"{LLAMA_REPOSITORY}-p{number}", "tls")
        finally:
            engine.docker("rmi", f"prune:{number}")

    def apply(self, site: Site, number: int) -> None:
        site.manifest["backends"]["llama"] |= {"image": image(number), "version": f"b{llama.BUILD}"}
        site.manifest["models"]["tiny"]["source"] = {"huggingface": repo(number), "files": [TINY_FILE]}
        site.run("apply")

    def images(self) -> set[int]:
        """Which of the four the engine has."""
        listed = self.mine.on(HOST).check_output("docker images --no-trunc --digests --format '{{.Digest}}'")
        return {number for number, digest in self.digests.items() if digest in listed.split()}

    def used(self) -> int:
        """Bytes of the weights folder, each file once."""
        return int(self.mine.on(HOST).check_output("du -sb %s", WEIGHTS).split()[0])


@pytest.fixture(scope="module")
def upgrades(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrades]:
    bare_hosts(lab, HostSpec(HOST, "trixie", sudo="password", engine=True))
    sites = [make_site(lab, tmp_path_factory.mktemp(name), HOST, name=name) for name in (MINE, THEIRS)]
    made = Upgrades(lab, *sites)
    try:
        made.apply(made.mine, 1)
        made.mine.on(HOST).check_output(f"tar -C /etc -c hostname | docker import - {FOREIGN}")
        made.apply(made.theirs, 1)
        for number in (2, 3, 4):
            made.apply(made.mine, number)
        made.apply(made.theirs, 4)
        yield made
    finally:
        lab.remove(HOST)


def test_what_would_go_is_told_and_where_nobody_can_be_asked_nothing_goes(upgrades: Upgrades):
    before = upgrades.images()
    assert "in 1 file" in upgrades.mine.run("prune", "--keep", "0", "--dry-run")
    assert "--yes" in upgrades.mine.run("prune", "--keep", "0", code=64)
    assert upgrades.images() == before


def test_with_the_usual_number_of_releases_there_is_nothing_to_prune(upgrades: Upgrades):
    assert "no changes" in upgrades.mine.run("prune")


def test_pruning_one_deployment_frees_what_only_it_needed(upgrades: Upgrades):
    images, used = upgrades.images(), upgrades.used()
    served = upgrades.theirs.inspect(HOST, f"{THEIRS}_tiny_0")["Id"]
    told = upgrades.mine.run("prune", "--keep", "0", "--yes")
    size = (upgrades.mine.lab.hub.root / repo(2) / "files" / TINY_FILE).stat().st_size
    assert images == {1, 2, 3, 4}
    # 4 serves, 3 is where a rollback leads; 1 and 4 are the other deployment's.
    assert upgrades.images() == {1, 3, 4}
    assert used - upgrades.used() >= size
    on = upgrades.mine.on(HOST)
    assert len(on.file(f"{WEIGHTS}/trees").listdir()) == 3
    assert len(on.file(f"/var/lib/cpudeploy/{MINE}/releases").listdir()) == 2
    assert on.run(f"docker image inspect {FOREIGN}").rc == 0
    assert upgrades.theirs.inspect(HOST, f"{THEIRS}_tiny_0")["Id"] == served
    assert "in 1 file" in told


def test_a_second_prune_finds_nothing_and_both_deployments_are_as_wanted(upgrades: Upgrades):
    assert "no changes" in upgrades.mine.run("prune", "--keep", "0")
    assert upgrades.mine.settled()
    assert upgrades.theirs.settled()


@pytest.mark.parametrize("who", ["theirs", "mine"])
def test_both_can_still_go_back_without_asking_anybody(upgrades: Upgrades, who: str):
    site: Site = getattr(upgrades, who)
    before = site.inspect(HOST, f"{site.manifest['name']}_tiny_0")["Image"]
    with nobody_to_ask(site, HOST):
        site.run("rollback")
    assert site.inspect(HOST, f"{site.manifest['name']}_tiny_0")["Image"] != before
    port = site.manifest["models"]["tiny"]["port"]
    assert "tiny" in site.ask(HOST, port, site.api_key)
