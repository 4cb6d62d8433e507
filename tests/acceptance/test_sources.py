"""Models from this machine, from ModelScope and from gated repositories, on a real host: each content once."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.execute.fetch import fetch
from cpudeploy.resolve.cache import Cache
from cpudeploy.resolve.hub import Hub
from cpudeploy.resolve.modelscope import Scope
from cpudeploy.resolve.weights import Asking, resolve_weights
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, connect
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Host, HuggingFace, ModelScope, Ssh
from cpudeploy.types.operation import Fetch
from cpudeploy.types.resolved import WeightFile
from tests.acceptance.site import TINY, TINY_FILE, Site, bare_hosts, make_site
from tests.execute.file_server import serving
from tests.lab import models
from tests.lab.hosts import HostSpec
from tests.lab.hub_process import GATED
from tests.lab.lab import Lab
from tests.lab.modelscope import serve_modelscope

pytestmark = pytest.mark.lab

HOST = "sources12"
WEIGHTS = "/var/lib/cpudeploy/weights"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A host that serves a model of this machine."""
    bare_hosts(lab, HostSpec(HOST, engine=True))
    site = make_site(lab, tmp_path_factory.mktemp("sources"), HOST)
    (site.folder / "models").mkdir()
    shutil.copy(models.tiny(), site.folder / "models" / "mine.gguf")
    mine = {**site.manifest["models"]["tiny"], "source": {"upload": "models/mine.gguf"}, "cpus": "0-0"}
    site.manifest["models"] = {"mine": mine}
    site.bare_plan = site.run("plan", "--detailed-exitcode", code=2)
    site.run("apply")
    yield site
    lab.remove(HOST)


def blobs(site: Site) -> dict[str, str]:
    """sha256 → how many names it has on the host."""
    told = site.on(HOST).check_output(f"stat -c '%n %h' {WEIGHTS}/blobs/*")
    names = dict(line.rsplit(" ", 1) for line in told.splitlines())
    return {Path(name).name: links for name, links in names.items() if not name.endswith(".meta")}


def with_curl(site: Site) -> None:
    site.on(HOST).check_output("command -v curl || { apt-get update -qq && apt-get install -yqq curl; }")


def connected(site: Site, secrets: Secrets) -> Connection:
    config = str(site.lab.state / "ssh_config")
    ssh = Ssh(address=site.lab.hosts[HOST].address, user="root", config=config)
    return connect(Host(name=HOST, ssh=ssh), secrets)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_of_this_machine_is_sent_and_served(site: Site) -> None:
    assert "to fetch from this machine" in site.bare_plan
    assert "mine" in site.ask(HOST, 8100, site.api_key)
    assert blobs(site) == {sha256(site.folder / "models" / "mine.gguf"): "2"}
    assert site.settled()


def test_the_same_content_from_modelscope_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    files = tmp_path / "repos" / TINY / "files"
    files.mkdir(parents=True)
    shutil.copy(models.tiny(), files / TINY_FILE)
    tiny = {**site.manifest["models"]["mine"], "source": {"modelscope": TINY}, "port": 8101, "cpus": "1-1"}
    site.manifest["models"]["scope"] = tiny
    log = tmp_path / "log"
    with serve_modelscope(tmp_path / "repos", log, site.lab.hub.address) as url:
        site.manifest["mirrors"]["modelscope"] = url
        site.run("apply")
        assert site.settled()
        served = [json.loads(line) for line in log.read_text().splitlines()]
    assert "scope" in site.ask(HOST, 8101, site.api_key)
    assert blobs(site) == {sha256(models.tiny()): "3"}
    host = site.lab.hosts[HOST].address
    assert {each["client"] for each in served} != set() and host not in {each["client"] for each in served}
    del site.manifest["models"]["scope"]
    site.run("apply")


@pytest.mark.parametrize("via", ["host", "controller"])
def test_a_private_repository_of_modelscope_is_had_with_a_token_that_its_storage_never_sees(
    site: Site, tmp_path: Path, via: str
) -> None:
    files = tmp_path / "repos" / "corp" / "own" / "files"
    files.mkdir(parents=True)
    shutil.copy(models.tiny(), files / "own.gguf")
    with (files / "own.gguf").open("ab") as file:
        file.write(via.encode())  # another content each time: what is there is not fetched
    (files.parent / "repo.json").write_text('{"private": true}')
    (tmp_path / "repos" / "tokens.json").write_text(
        '{"ms-planted": {"name": "reader", "access": ["corp/own"]}}'
    )
    (tmp_path / "token").write_text("ms-planted")
    secrets, ref = Secrets(tmp_path), SecretRef(kind="from_file", name="token")
    if via == "host":
        with_curl(site)
    with serve_modelscope(tmp_path / "repos", tmp_path / "log", site.lab.hub.address) as url:
        asking = Asking(hub=Hub(), secrets=secrets, cache=Cache(None), held={}, scope=Scope(origin=url))
        found = resolve_weights(ModelScope(repo="corp/own", token=ref), "gguf", asking)
        (wanted,) = (each for each in found.files if isinstance(each, WeightFile))
        (tmp_path / "log").write_text("")
        operation = Fetch(id="1", deadline_s=60, weights_dir="/srv/scope", file=wanted, via=via)
        connection = connected(site, secrets)
        try:
            fetch(connection, operation, secrets, lambda *_: None, lambda _: None)
        finally:
            connection.close()
        asked = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    told = site.on(HOST).check_output(f"sha256sum < /srv/scope/blobs/{wanted.sha256}")
    assert told.split()[0] == wanted.sha256 == sha256(files / "own.gguf")
    api = int(url.rpartition(":")[2])
    assert {(each["port"] == api, each["status"], each["token"]) for each in asked} == {
        (True, 302, "reader"),
        (False, 200, None),
    }
    mine = {each["client"] == site.lab.hosts[HOST].address for each in asked}
    assert mine == {via == "host"}


def test_another_file_in_its_place_is_a_change_and_a_saved_plan_of_it_goes_stale(site: Site) -> None:
    path = site.folder / "models" / "mine.gguf"
    before = site.inspect(HOST, "rag_mine_0")["Id"]
    path.write_bytes(path.read_bytes() + bytes(32))
    assert "from this machine" in site.run("plan", "-o", "plan.json", "--detailed-exitcode", code=2)
    path.write_bytes(path.read_bytes()[:-32] + b"x" * 32)
    told = site.run("apply", "plan.json", code=6)
    assert "changed since this was planned" in told and str(path) in told
    assert site.inspect(HOST, "rag_mine_0")["Id"] == before
    site.run("apply")
    assert "mine" in site.ask(HOST, 8100, site.api_key)
    assert sha256(path) in blobs(site)
    assert site.settled()
    path.rename(path.with_suffix(".away"))
    assert "No such file" in site.run("plan", code=1)


def test_a_gated_repository_that_a_mirror_lacks_comes_from_the_hub_with_the_token(
    site: Site, tmp_path: Path
) -> None:
    """By the host's own curl; the token is in no argument on the way and goes nowhere else."""
    hub, host = site.lab.hub, site.on(HOST)
    with_curl(site)
    (tmp_path / "token").write_text(hub.token)
    secrets, ref = Secrets(tmp_path), SecretRef(kind="from_file", name="token")
    with serving(b"", address=hub.address) as mirror:
        mirror.status = 404
        where = f"http://{mirror.address}:{mirror.port}"
        asking = Asking(hub=Hub(mirror=where, origin=hub.url), secrets=secrets, cache=Cache(None), held={})
        hub.forget_requests()
        found = resolve_weights(HuggingFace(repo=GATED, token=ref), "gguf", asking)
        (file,) = (each for each in found.files if isinstance(each, WeightFile))
        assert [url.startswith(hub.url) for url in file.urls] == [True]
        seen: list[str] = []
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.1):
                seen.append(site.lab.hosts[HOST].exec(["sh", "-c", "cat /proc/[0-9]*/cmdline"]).stdout)

        folder = "/srv/gated"
        fetching: dict[str, Any] = {"id": "1", "deadline_s": 60, "weights_dir": folder, "via": "host"}
        notes: list[str] = []
        connection = connected(site, secrets)
        hub.break_requests(match=TINY_FILE, rate=file.size / 2)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            fetch(connection, Fetch(**fetching, file=file), secrets, lambda *_: None, notes.append)
        finally:
            over.set()
            watcher.join()
            hub.heal()
            connection.close()
    assert host.check_output(f"sha256sum < {folder}/blobs/{file.sha256}").split()[0] == file.sha256
    downloads = [each for each in hub.requests() if each["client"] == site.lab.hosts[HOST].address]
    assert {(each["port"], each["token"]) for each in downloads} == {
        (hub.port, "reader"),
        (hub.port + 1, None),
    }
    assert mirror.requests and not any("authorization" in each for each in mirror.requests)
    assert any("curl" in each for each in seen)
    assert not any(hub.token in each for each in [*seen, *notes])
