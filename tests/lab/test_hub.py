"""The lab's hub, asked by the real client library."""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub import errors as hf_errors

from cpudeploy.resolve import hub as asking
from cpudeploy.resolve.snapshots import Asked
from tests.lab.hub_process import GATED, TINY, Hub
from tests.lab.models import TINY as TINY_FILE

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub of its own on loopback."""
    hub = Hub("127.0.0.1", tmp_path_factory.mktemp("hub"), port=18_480)
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(autouse=True)
def healthy(hub: Hub) -> Iterator[None]:
    yield
    hub.heal()


def download(hub: Hub, folder: Path, repo: str = TINY, **options: Any) -> Path:
    return Path(hf_hub_download(repo, TINY_FILE, endpoint=hub.url, cache_dir=folder, **options))


def test_model_info_tells_sizes_and_hashes(hub: Hub) -> None:
    info = HfApi(endpoint=hub.url).model_info(TINY, files_metadata=True)
    file = next(sibling for sibling in info.siblings or [] if sibling.rfilename == TINY_FILE)
    content = (hub.root / TINY / "files" / TINY_FILE).read_bytes()
    assert file.lfs is not None
    assert file.size == file.lfs.size == len(content)
    assert file.lfs.sha256 == hashlib.sha256(content).hexdigest()


def test_our_own_question_is_answered_as_the_librarys(hub: Hub) -> None:
    info = HfApi(endpoint=hub.url, token=False).model_info(TINY, files_metadata=True)
    found = asking.Hub(origin=hub.url).listing(Asked(hub.url, TINY, "main", None, 10, "here"))
    assert found.commit == info.sha
    assert [(each.path, each.size, each.sha256, each.blob) for each in found.files] == [
        (each.rfilename, each.size, each.lfs and each.lfs.sha256, each.blob_id)
        for each in info.siblings or []
    ]


def test_tree_lists_files_at_a_pinned_commit(hub: Hub) -> None:
    api = HfApi(endpoint=hub.url)
    sha = api.model_info(TINY).sha
    assert {entry.path for entry in api.list_repo_tree(TINY, revision=sha)} == {"README.md", TINY_FILE}
    assert [branch.target_commit for branch in api.list_repo_refs(TINY).branches] == [sha]
    assert [info.path for info in api.get_paths_info(TINY, [TINY_FILE])] == [TINY_FILE]


def test_download_gives_the_file_from_the_commit_asked_for(hub: Hub, tmp_path: Path) -> None:
    sha = HfApi(endpoint=hub.url).model_info(TINY).sha
    path = download(hub, tmp_path, revision=sha)
    assert path.read_bytes() == (hub.root / TINY / "files" / TINY_FILE).read_bytes()
    assert path.parent.name == sha


def test_unknown_things_raise_what_the_real_hub_makes_the_client_raise(hub: Hub) -> None:
    api = HfApi(endpoint=hub.url, token=False)
    with pytest.raises(hf_errors.RepositoryNotFoundError):
        api.model_info("no/such")
    with pytest.raises(hf_errors.RevisionNotFoundError):
        api.model_info(TINY, revision="no-such")
    with pytest.raises(hf_errors.EntryNotFoundError):
        hf_hub_download(TINY, "no-such.gguf", endpoint=hub.url)


def test_gated_repository_asks_for_a_token_that_may(hub: Hub, tmp_path: Path) -> None:
    assert HfApi(endpoint=hub.url, token=False).model_info(GATED).gated == "manual"
    with pytest.raises(hf_errors.GatedRepoError):
        download(hub, tmp_path, GATED, token=False)
    with pytest.raises(hf_errors.GatedRepoError):
        download(hub, tmp_path, GATED, token=hub.token_without_access)
    hub.forget_requests()
    assert download(hub, tmp_path, GATED, token=hub.token).exists()
    seen = {(request["port"], request["token"]) for request in hub.requests()}
    assert seen == {(hub.port, "reader"), (hub.port + 1, None)}, "the storage must not get the token"


def test_a_cut_connection_is_resumed_with_a_range(hub: Hub, tmp_path: Path) -> None:
    content = bytes(range(256)) * 100_000
    folder = hub.root / "cpudeploy" / "large" / "files"
    folder.mkdir(parents=True)
    (folder / "large.gguf").write_bytes(content)
    hub.forget_requests()
    hub.break_requests(cut_after=15_000_000, times=1)
    path = hf_hub_download("cpudeploy/large", "large.gguf", endpoint=hub.url, cache_dir=tmp_path)
    assert Path(path).read_bytes() == content
    gets = [request for request in hub.requests() if request["sent"]]
    chunk = 10 * 1024 * 1024  # the client keeps whole chunks
    assert [(get["status"], get["range"]) for get in gets] == [(200, None), (206, f"bytes={chunk}-")]


def test_a_rate_holds_for_each_connection(hub: Hub, tmp_path: Path) -> None:
    hub.break_requests(rate=3_000_000, match=TINY_FILE)
    began = time.monotonic()
    download(hub, tmp_path)
    assert time.monotonic() - began > 1


def test_a_busy_hub_answers_503_as_often_as_asked(hub: Hub) -> None:
    hub.break_requests(status=503, times=1, match="/api/models")
    with pytest.raises(hf_errors.HfHubHTTPError, match="503"):
        HfApi(endpoint=hub.url).model_info(TINY)
    assert HfApi(endpoint=hub.url).model_info(TINY).sha


def test_wrong_bytes_come_when_asked_for(hub: Hub, tmp_path: Path) -> None:
    hub.break_requests(corrupt=True)
    path = download(hub, tmp_path)
    assert path.read_bytes() != (hub.root / TINY / "files" / TINY_FILE).read_bytes()


def test_ranges_beyond_the_end_are_refused(hub: Hub) -> None:
    request = urllib.request.Request(
        f"{hub.url}/{TINY}/resolve/main/{TINY_FILE}", headers={"Range": "bytes=9999999-"}
    )
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request)
    assert refusal.value.code == 416
    assert refusal.value.headers["Content-Range"].startswith("bytes */")
