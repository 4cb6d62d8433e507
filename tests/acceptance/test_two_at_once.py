"""Two applies that want the same fleet at the same time, as two pipelines do: one has it all, the other says who."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOSTS = ("two12", "two13")
ROUNDS = 2


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two hosts that serve the tiny model."""
    bare_hosts(
        lab,
        HostSpec(HOSTS[0], "bookworm", engine=True),
        HostSpec(HOSTS[1], "trixie", sudo="password", engine=True),
    )
    site = make_site(lab, tmp_path_factory.mktemp("site"), *HOSTS)
    site.run("apply")
    yield site
    for name in HOSTS:
        lab.remove(name)


@pytest.mark.parametrize("round", range(ROUNDS))
def test_one_wins_and_the_other_names_it_and_changes_nothing(site: Site, round: int):
    site.manifest["models"]["tiny"]["context"] = 1024 if round % 2 else 768
    first, second = site.start("apply"), site.start("apply")
    ends = {process: process.communicate(timeout=300) for process in (first, second)}
    told = {process: "".join(parts) for process, parts in ends.items()}
    codes = sorted(process.returncode for process in ends)
    if codes == [0, 0]:  # the second came when the first was done, and found nothing to do
        assert any("no changes" in text for text in told.values()), told
    else:
        assert codes[0] == 0 and codes[1] in (5, 6), told
        loser = next(process for process in ends if process.returncode)
        winner = first if loser is second else second
        if codes[1] == 5:
            assert f"(pid {winner.pid})" in told[loser], told[loser]
            assert len(re.findall(r"✗ two1[23]", told[loser])) == len(HOSTS), told[loser]
        assert "tiny: stop" not in told[loser] and "tiny: create" not in told[loser]
    assert site.settled()
    for host in HOSTS:
        assert site.on(host).check_output("docker ps -a --format '{{.Names}}'").split() == ["rag_tiny_0"]
        assert not site.on(host).exists("/var/lib/cpudeploy/lease")
