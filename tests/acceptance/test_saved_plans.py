"""A saved plan does once what it says, on hosts that are as they were, and never anything else."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.acceptance.test_interrupted import wait_for
from tests.lab import engine, llama
from tests.lab.hosts import HostSpec, host_key
from tests.lab.lab import Lab
from tests.ready import Command
from tests.schemas import check_document

pytestmark = pytest.mark.lab

HOST = "kept12"
SPEC = HostSpec(HOST, "bookworm", engine=True)
NAME = "rag_tiny_0"
MOVED = llama.IMAGE.rpartition(":")[0] + ":moved"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host that serves the tiny model."""
    bare_hosts(lab, SPEC)
    site = make_site(lab, tmp_path_factory.mktemp("site"), HOST)
    site.run("apply")
    yield site
    lab.remove(HOST)


@pytest.fixture
def file(site: Site) -> Path:
    """Where plans of this test are saved: beside nothing of the deployment."""
    folder = site.folder.parent / f"{site.folder.name}-elsewhere"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder / "plan.json"


def save(site: Site, file: Path) -> str:
    """A plan that changes the model's context, saved; what was said."""
    tiny = site.manifest["models"]["tiny"]
    tiny["context"] = 1024 if tiny["context"] == 512 else 512
    return site.run("plan", "-o", str(file))


def apply(site: Site, file: Path, *arguments: str) -> tuple[int, str]:
    """Apply a saved plan from the folder it is in; exit code and all that was said."""
    process = start(site, file, *arguments)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err, err
    return process.returncode, out + err


def start(site: Site, file: Path, *arguments: str) -> Command:
    elsewhere = Site(lab=site.lab, folder=file.parent, manifest={})
    process = elsewhere.start("apply", file.name, *arguments)
    (file.parent / "inventory.yaml").unlink()  # written by the helper; nothing of the kind is needed
    return process


def stands(site: Site) -> dict[str, object]:
    """What somebody would notice if anything was done to the host."""
    found = site.inspect(HOST, NAME)
    releases = site.on(HOST).check_output("ls /var/lib/cpudeploy/rag/releases")
    return {"id": found["Id"], "started": found["State"]["StartedAt"], "releases": releases}


def test_it_is_carried_out_without_the_manifest_and_once(site: Site, file: Path):
    said = save(site, file)
    assert f"saved in {file}: cpudeploy apply {file}" in said
    wanted = site.manifest["models"]["tiny"]["context"]
    code, told = apply(site, file)
    assert code == 0, told
    assert f"{1536 - wanted} → {wanted}" in told
    assert str(wanted) in site.inspect(HOST, NAME)["Config"]["Cmd"]
    assert site.settled()
    before = stands(site)
    code, told = apply(site, file)
    assert code == 6, told
    assert "this plan was carried out here already" in told
    assert stands(site) == before


def test_its_secrets_may_lie_elsewhere(site: Site, file: Path):
    save(site, file)
    elsewhere = file.parent / "secrets"
    elsewhere.mkdir()
    moved = ("api-key", "registry-password", "sudo-password")
    for name in moved:
        shutil.move(site.folder / name, elsewhere / name)
    try:
        code, told = apply(site, file)
        assert (code, "--secrets-dir DIR" in told) == (1, True), told
        code, told = apply(site, file, "--secrets-dir", str(elsewhere))
        assert code == 0, told
    finally:
        for name in moved:
            shutil.move(elsewhere / name, site.folder / name)
    assert "tiny" in site.ask(HOST, 8100, site.api_key)


def test_a_container_that_was_changed_by_hand_makes_it_stale(site: Site, file: Path):
    save(site, file)
    site.on(HOST).check_output(f"docker update --memory 300m --memory-swap 300m {NAME}")
    before = stands(site)
    code, told = apply(site, file)
    assert code == 6, told
    assert f"container {NAME}: memory was " in told
    assert "is 300 MiB" in told
    assert "plan again" in told
    assert stands(site) == before
    site.run("apply")
    assert site.settled()


def test_a_tag_that_moved_since_does_not_matter(site: Site, file: Path):
    registry, repository = site.lab.registry, MOVED.partition("/")[2]
    planned = _variant("planned")
    digest = registry.push(planned, repository, "tls")
    site.manifest["backends"]["llama"]["image"] = MOVED
    site.run("plan", "-o", str(file))
    assert registry.push(_variant("moved"), repository, "tls") != digest
    code, told = apply(site, file)
    assert code == 0, told
    assert site.inspect(HOST, NAME)["Config"]["Image"].endswith(f"@{digest}")
    site.manifest["backends"]["llama"]["image"] = llama.IMAGE
    site.run("apply")


@pytest.mark.parametrize("moment", ["record release", "create rag_tiny_0", f"wait until {NAME} serves"])
def test_killed_in_the_middle_the_same_file_goes_on(site: Site, file: Path, moment: str):
    save(site, file)
    process = start(site, file)
    wait_for(process, moment.partition(" rag")[0])
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    code, told = apply(site, file)
    for _ in range(30):
        if code != 5:  # what was left there is still putting back what it guards
            break
        time.sleep(2)
        code, told = apply(site, file)
    assert code == 0, told
    assert site.on(HOST).check_output("docker ps -a --format '{{.Names}}'").split() == [NAME]
    assert "tiny" in site.ask(HOST, 8100, site.api_key)
    assert site.settled()
    assert apply(site, file)[0] == 6


def test_interrupted_it_says_at_once_what_will_happen_and_then_what_is_left(site: Site, file: Path):
    save(site, file)
    process = start(site, file)
    wait_for(process, "record release")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "no other change is begun, one in the middle is undone" in out
    assert f"! {HOST}   left: tiny" in out
    assert "apply the same file again" in out
    code, told = apply(site, file)
    assert code == 0, told


def test_all_that_is_printed_is_as_its_schema_says(site: Site, file: Path):
    save(site, file)
    process = start(site, file, "--format", "json")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    *events, outcome = map(json.loads, out.splitlines())
    for event in events:
        check_document("event", event)
    check_document("outcome", outcome)
    check_document("plan", json.loads(file.read_text()))
    facts = site.json("facts")
    check_document("facts", facts[HOST])


def test_a_comment_on_a_merge_request_tells_plan_and_outcome(site: Site, file: Path):
    save(site, file)
    code, told = apply(site, file, "--format", "markdown")
    assert code == 0, told
    assert f"| ✅ | {HOST} | done" in told
    assert "<summary>the plan that was carried out</summary>" in told


def test_a_host_that_was_rebuilt_is_not_the_one_that_was_planned_for(site: Site, file: Path):
    lab, ssh = site.lab, site.manifest["defaults"]["ssh"]
    known, config = file.with_name("known_hosts"), file.with_name("ssh_config")
    config.write_text(Path(ssh["config"]).read_text().replace(str(lab.known_hosts), str(known)))
    known.write_text(lab.known_hosts.read_text())
    ssh["config"], usual = str(config), ssh["config"]
    save(site, file)
    _rebuild(lab, another_key=True)
    try:
        code, told = apply(site, file)
        assert code == 4, told
        assert "HOST KEY CHANGED" in told
        known.write_text(lab.known_hosts.read_text())
        code, told = apply(site, file)
        assert code == 6, told
        assert f"container {NAME} is gone" in told
        assert site.on(HOST).check_output("docker ps -aq") == ""
    finally:
        ssh["config"] = usual


def _rebuild(lab: Lab, *, another_key: bool) -> None:
    old = lab.hosts[HOST]
    lab.remove(HOST)
    if another_key:
        key = host_key(old, lab.state)
        for path in (key, key.with_name(key.name + ".pub")):
            path.unlink()
    lab.add(SPEC)
    assert lab.hosts[HOST].address == old.address


def _variant(label: str) -> str:
    """An image that serves as the lab's does, and has another digest."""
    name, container = f"cpudeploy-lab-variant:{label}", f"cpudeploy-lab-variant-{label}"
    engine.docker("rm", "--force", container, check=False)
    engine.docker("create", "--name", container, llama.IMAGE)
    engine.docker("commit", "--change", f"LABEL variant={label}", container, name)
    engine.docker("rm", container)
    return name
