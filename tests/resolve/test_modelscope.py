"""ModelScope as a source: a server that its own SDK accepts, then the same server asked by us."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from modelscope_hub import HubApi, HubConfig

from cpudeploy.errors import HubError
from cpudeploy.resolve.cache import Cache
from cpudeploy.resolve.hub import Hub
from cpudeploy.resolve.known import HeldTree
from cpudeploy.resolve.modelscope import MODELSCOPE, Scope
from cpudeploy.resolve.weights import Asking, resolve_weights
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import ModelScope
from cpudeploy.types.resolved import ResolvedWeights, WeightFile
from tests.lab.modelscope import serve_modelscope

from .folders import CONFIG, folder
from .gguf_files import write_gguf
from .registries import free_port
from .web_server import Reply, serve

REPO = "Qwen/Qwen3-0.6B"
PRIVATE = "corp/own-GGUF"
REF = SecretRef(kind="from_env", name="TEST_TOKEN")


@dataclass
class Running:
    """A ModelScope: its address, the folder of its repositories, its log."""

    url: str
    root: Path
    log: Path

    def put(self, repo: str, files: dict[str, bytes], revision: str = "files") -> None:
        for name, data in files.items():
            path = self.root / repo / revision / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("TEST_TOKEN", "ms-right")
    root, log = tmp_path / "repos", tmp_path / "log"
    with serve_modelscope(root, log) as url:
        running = Running(url, root, log)
        running.put(REPO, folder() | {"figures/deep/one.txt": b"1", "README.md": b"# Qwen"})
        running.put(PRIVATE, {"own.gguf": write_gguf(tmp_path / "own.gguf").read_bytes()})
        (root / PRIVATE / "repo.json").write_text('{"private": true}')
        users = {"ms-right": {"name": "reader", "access": [PRIVATE]}, "ms-other": {"name": "stranger"}}
        (root / "tokens.json").write_text(json.dumps(users))
        yield running


def ask(secrets: Secrets, scope: Scope, cache: Path | None = None) -> Asking:
    return Asking(hub=Hub(), secrets=secrets, cache=Cache(cache), held={}, scope=scope)


def resolved(secrets: Secrets, url: str, form: str = "safetensors", **source: Any) -> ResolvedWeights:
    wanted = ModelScope(**{"repo": REPO, **source})
    return resolve_weights(wanted, form, ask(secrets, Scope(origin=url)))  # type: ignore[arg-type]


def sums(found: ResolvedWeights) -> dict[str, str]:
    return {file.name: file.sha256 for file in found.files if isinstance(file, WeightFile)}


def sdk(scope: Running, tmp_path: Path, token: str = "") -> HubApi:
    home = tmp_path / "sdk"
    return HubApi(HubConfig(endpoint=scope.url, token=token, cache_dir=home / "cache", config_dir=home))


def test_the_sdk_takes_the_tests_server_for_the_real_one(scope: Running, tmp_path: Path) -> None:
    there = sdk(scope, tmp_path).download_repo(REPO, "model", local_dir=tmp_path / "got")
    files = scope.root / REPO / "files"
    names = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()}
    assert {name: (there / name).read_bytes() for name in names} == {
        name: (files / name).read_bytes() for name in names
    }
    assert "figures/deep/one.txt" in names
    with pytest.raises(Exception, match="not found"):
        sdk(scope, tmp_path).download_repo(PRIVATE, "model", local_dir=tmp_path / "no")
    got = sdk(scope, tmp_path, "ms-right").download_file(
        PRIVATE, "model", "own.gguf", local_dir=tmp_path / "private"
    )
    assert got.read_bytes() == (scope.root / PRIVATE / "files" / "own.gguf").read_bytes()


def test_we_see_what_the_sdk_sees(scope: Running, tmp_path: Path, secrets: Secrets) -> None:
    theirs = {
        file.path: (file.size, file.sha256)
        for file in sdk(scope, tmp_path).list_repo_files(REPO, "model")
        if file.type != "tree"
    }
    found = resolved(secrets, scope.url, files=["*"])
    ours = {file.name: (file.size, file.sha256) for file in found.files if isinstance(file, WeightFile)}
    assert ours == theirs


def test_a_folder_is_read_and_pinned_by_its_checksums(scope: Running, secrets: Secrets) -> None:
    found = resolved(secrets, scope.url)
    files = scope.root / REPO / "files"
    assert sums(found) == {
        name: hashlib.sha256((files / name).read_bytes()).hexdigest()
        for name in ("config.json", "figures/deep/one.txt", "model.safetensors", "tokenizer_config.json")
    }
    assert found.shape is not None and found.shape.layers == CONFIG["num_hidden_layers"]
    assert found.tensors is not None
    assert found.source == f"modelscope {REPO}@master ({found.revision[:7]})"
    address = f"{scope.url}/api/v1/models/{REPO}/repo?Revision=master&FilePath=figures%2Fdeep%2Fone.txt"
    assert [file.urls for file in found.files if file.name.endswith("one.txt")] == [(address,)]  # type: ignore[union-attr]
    assert resolved(secrets, scope.url).revision == found.revision
    scope.put(REPO, {"README.md": b"# other"})
    assert resolved(secrets, scope.url).revision != found.revision
    assert resolved(secrets, scope.url).tree == found.tree


def test_without_a_way_there_what_all_hosts_hold_of_the_last_release_counts(
    scope: Running, secrets: Secrets, tmp_path: Path
) -> None:
    source, cache = ModelScope(repo=REPO, exclude=("figures/*",)), tmp_path / "cache"
    known = resolve_weights(source, "safetensors", ask(secrets, Scope(origin=scope.url), cache))
    released = HeldTree(known.tree, known.source, known.revision, sums(known))
    held = {file.sha256: file.size for file in known.files if isinstance(file, WeightFile)}
    away = Asking(
        hub=Hub(),
        secrets=secrets,
        cache=Cache(cache),
        held=held,
        scope=Scope(mirror=scope.url + "/gone", origin=scope.url),
    )
    scope.root.rename(scope.root.with_name("away"))
    again = resolve_weights(source, "safetensors", away, released)
    assert (again.tree, again.shape, sums(again)) == (known.tree, known.shape, sums(known))
    assert "every host holds the last release's files" in again.notes[0]


def test_what_is_excluded_is_not_taken(scope: Running, secrets: Secrets) -> None:
    found = resolved(secrets, scope.url, exclude=["figures/*"])
    assert set(sums(found)) == {"config.json", "model.safetensors", "tokenizer_config.json"}


def test_another_revision_is_another_content(scope: Running, secrets: Secrets) -> None:
    scope.put(REPO, folder(config_json=json.dumps(CONFIG | {"vocab_size": 11}).encode()), "refs/v1.1")
    found = resolved(secrets, scope.url, revision="v1.1")
    assert found.shape is not None and found.shape.vocabulary == 11
    assert found.tree != resolved(secrets, scope.url).tree
    with pytest.raises(HubError, match="no such repository or revision"):
        resolved(secrets, scope.url, revision="v9")


def test_a_private_repository_takes_a_token_that_storage_never_sees(scope: Running, secrets: Secrets) -> None:
    with pytest.raises(HubError) as refused:
        resolved(secrets, scope.url, "gguf", repo=PRIVATE)
    assert "token" in refused.value.do
    found = resolved(secrets, scope.url, "gguf", repo=PRIVATE, token=REF)
    assert found.shape is not None
    (file,) = found.files
    assert isinstance(file, WeightFile)
    assert (file.token, file.token_for, file.token_cookie) == (REF, f"{scope.url}/", "m_session_id")
    asked = {(each["port"] == scope.port, each["token"]) for each in scope.requests if each["status"] < 300}
    assert asked == {(True, "reader"), (False, None)}
    assert "ms-right" not in scope.log.read_text()


def test_a_token_that_may_not_is_refused_in_words(
    scope: Running, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("ms-other", "ms-wrong"):
        monkeypatch.setenv("TEST_TOKEN", wrong)
        with pytest.raises(HubError) as refused:
            resolved(Secrets(Path()), scope.url, "gguf", repo=PRIVATE, token=REF)
        assert wrong not in str(refused.value)


def test_a_mirror_gives_files_but_never_gets_the_token(scope: Running, secrets: Secrets) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    wanted = ModelScope(repo=REPO, token=REF)
    found = resolve_weights(wanted, "safetensors", ask(secrets, Scope(mirror=scope.url, origin=dead)))
    assert "unverified" in found.notes[0]
    assert {each["token"] for each in scope.requests} == {None}
    assert {file.token_for for file in found.files if isinstance(file, WeightFile)} == {f"{dead}/"}
    assert {file.urls[0].startswith(scope.url) for file in found.files if isinstance(file, WeightFile)} == {
        True
    }


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "a\\b", ""])
def test_names_that_leave_the_folder_are_refused(secrets: Secrets, name: str) -> None:
    entry = {"Path": name, "Type": "blob", "Size": 1, "Sha256": "0" * 64}
    body = json.dumps({"Code": 200, "Data": {"Files": [entry]}}).encode()
    with serve(lambda _: Reply(200, body)) as server, pytest.raises(HubError, match="leave its folder"):
        resolved(secrets, server.url)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b"<html>", "as ModelScope does"),
        (200, b'{"Code": 500, "Data": null}', "as ModelScope does"),
        (200, b'{"Code": 200, "Data": {"Files": [1]}}', "as ModelScope does"),
        (200, b'{"Code": 200, "Data": {"Files": [{"Path": "x", "Type": "blob"}]}}', "no size"),
        (200, b'{"Code": 200, "Data": {"Files": [' + b"{}," * 2999 + b"{}]}}", "3000 files"),
        (404, b"{}", "no such repository"),
        (429, b"{}", "too many requests"),
        (503, b"{}", "status 503"),
    ],
)
def test_other_answers_are_told_in_words(secrets: Secrets, status: int, body: bytes, says: str) -> None:
    with serve(lambda _: Reply(status, body)) as server, pytest.raises(HubError, match=says):
        resolved(secrets, server.url)


def test_the_endpoint_is_the_manifests_then_the_sdks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"):
        monkeypatch.delenv(name, raising=False)
    assert Scope.of(None) == Scope(origin=MODELSCOPE)
    assert Scope.of("https://www.modelscope.ai/") == Scope(origin="https://www.modelscope.ai")
    assert Scope.of("http://copy.corp").endpoints == ("http://copy.corp", MODELSCOPE)
    monkeypatch.setenv("MODELSCOPE_DOMAIN", "copy.corp")
    assert Scope.of(None).mirror == "https://copy.corp"
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "https://www.modelscope.cn")
    assert Scope.of(None) == Scope(origin="https://www.modelscope.cn")
