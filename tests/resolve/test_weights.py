"""Sources become files: against a small Hub."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cpudeploy.errors import HubError
from cpudeploy.resolve.cache import Cache
from cpudeploy.resolve.hub import Hub
from cpudeploy.resolve.trees import tree_id
from cpudeploy.resolve.weights import Asking, resolve_weights
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import HostPath, HuggingFace, Url

from .folders import folder
from .gguf_files import TENSOR_BYTES, write_gguf
from .hubs import COMMIT, TOKEN, Repo, RunningHub, run_hub
from .registries import free_port
from .web_server import Reply, serve

REPO = "Qwen/Qwen3-4B-GGUF"
REF = SecretRef(kind="from_env", name="TEST_TOKEN")


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "model.gguf").read_bytes()


@pytest.fixture
def secrets(secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> Secrets:
    monkeypatch.setenv("TEST_TOKEN", TOKEN)
    return secrets


def asking(secrets: Secrets, origin: str, mirror: str | None = None, **fields: object) -> Asking:
    hub = Hub(mirror=mirror, origin=origin)
    return Asking(**{"hub": hub, "secrets": secrets, "cache": Cache(None), "held": {}, **fields})  # type: ignore[arg-type]


def downloads(hub: RunningHub) -> list[str]:
    return [request.path for request in hub.server.requests if "/resolve/" in request.path]


def test_a_quantisation_becomes_a_pinned_file_with_its_header(secrets: Secrets, model: bytes) -> None:
    repo = Repo({"README.md": b"#", "x-Q4_0.gguf": model, "x-Q8_0.gguf": b"GGUF"})
    with run_hub({REPO: repo}) as hub:
        found = resolve_weights(HuggingFace(repo=REPO, quant="Q4_0"), "gguf", asking(secrets, hub.url))
    [file] = found.files
    sha256 = hashlib.sha256(model).hexdigest()
    assert (file.name, file.size, file.sha256) == ("x-Q4_0.gguf", len(model), sha256)
    assert file.urls == (f"{hub.url}/{REPO}/resolve/{COMMIT}/x-Q4_0.gguf",)
    assert (found.entry, found.revision, found.source) == (
        "x-Q4_0.gguf",
        COMMIT,
        f"huggingface {REPO}@main (a1b2c3d)",
    )
    assert found.tree == tree_id(REPO, [("x-Q4_0.gguf", sha256)])
    assert found.shape is not None
    assert found.shape.layers == 2
    assert found.tensors is not None
    assert found.tensors.size == TENSOR_BYTES
    assert found.size == len(model)


def test_only_the_header_of_a_large_file_is_fetched(secrets: Secrets, model: bytes) -> None:
    large = Repo({"x.gguf": model + bytes(30_000_000)})
    for ranges in (True, False):
        with run_hub({REPO: large}, ranges=ranges) as hub:
            found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, hub.url))
        assert found.shape is not None
        assert hub.server.sent < 10_000_000


@pytest.mark.parametrize("ranges", [True, False])
def test_a_header_of_megabytes_is_fetched_in_growing_parts(
    secrets: Secrets, tmp_path: Path, ranges: bool
) -> None:
    data = write_gguf(tmp_path / "big.gguf", vocabulary=120_000).read_bytes()
    with run_hub({REPO: Repo({"x.gguf": data})}, ranges=ranges) as hub:
        found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, hub.url))
    assert found.shape is not None
    assert found.shape.vocabulary == 120_000


def test_shards_share_one_folder_and_their_tensors_are_summed(secrets: Secrets, model: bytes) -> None:
    files = {f"Q8_0/x-Q8_0-0000{number}-of-00002.gguf": model for number in (1, 2)}
    with run_hub({REPO: Repo(files)}) as hub:
        found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, hub.url))
    assert [file.name for file in found.files] == ["x-Q8_0-00001-of-00002.gguf", "x-Q8_0-00002-of-00002.gguf"]
    assert found.files[0].urls[0].endswith("/Q8_0/x-Q8_0-00001-of-00002.gguf")
    assert found.entry == "x-Q8_0-00001-of-00002.gguf"
    assert found.shape is not None
    assert found.tensors is not None
    assert found.tensors.size == 2 * TENSOR_BYTES


def test_small_files_that_only_git_knows_are_hashed_once(secrets: Secrets, tmp_path: Path) -> None:
    repo = Repo({**folder(), "1_Pooling/config.json": b"[]"})
    with run_hub({REPO: repo}) as hub:
        ask = asking(secrets, hub.url, cache=Cache(tmp_path))
        found = resolve_weights(HuggingFace(repo=REPO), "safetensors", ask)
        asked = len(downloads(hub))
        assert resolve_weights(HuggingFace(repo=REPO), "safetensors", ask) == found
        assert len(downloads(hub)) == asked
    assert {file.name: file.sha256 for file in found.files} == {
        name: hashlib.sha256(data).hexdigest() for name, data in repo.files.items()
    }
    assert found.entry == ""


def test_small_content_that_is_not_what_git_names_is_refused(secrets: Secrets) -> None:
    repo = Repo({"model.safetensors": b"w"}, info={})
    listed = {"rfilename": "config.json", "size": 2, "blobId": "0" * 40}
    lfs = {
        "rfilename": "model.safetensors",
        "size": 1,
        "lfs": {"size": 1, "sha256": "0" * 64, "pointerSize": 1},
    }
    repo.info["siblings"] = [listed, lfs]
    repo.files["config.json"] = b"{}"
    with run_hub({REPO: repo}) as hub, pytest.raises(HubError, match="not what the repository lists"):
        resolve_weights(HuggingFace(repo=REPO), "safetensors", asking(secrets, hub.url))


def test_a_large_file_without_a_checksum_is_not_downloaded(secrets: Secrets) -> None:
    repo = Repo({"model.safetensors": b"w", "vocab.json": b"."})
    listed = {"rfilename": "x.safetensors", "size": 30_000_000, "blobId": "0" * 40}
    repo.info["siblings"] = [listed]
    with run_hub({REPO: repo}) as hub, pytest.raises(HubError, match="30 MB without a checksum"):
        resolve_weights(HuggingFace(repo=REPO), "safetensors", asking(secrets, hub.url))
    assert not downloads(hub)


def test_a_mirror_comes_first_in_the_urls_and_gets_no_token(secrets: Secrets, model: bytes) -> None:
    repos = {REPO: Repo({"x.gguf": model})}
    with run_hub(repos) as mirror, run_hub(repos) as origin:
        ask = asking(secrets, origin.url, mirror.url)
        found = resolve_weights(HuggingFace(repo=REPO, token=REF), "gguf", ask)
    assert found.files[0].urls == tuple(
        f"{hub.url}/{REPO}/resolve/{COMMIT}/x.gguf" for hub in (mirror, origin)
    )
    assert (found.files[0].token, found.files[0].token_for) == (REF, f"{origin.url}/")
    assert mirror.tokens == set()
    assert found.notes == ()


def test_the_hubs_own_word_counts_against_a_mirrors(secrets: Secrets, model: bytes) -> None:
    other = Repo({"x.gguf": b"GGUF" + bytes(len(model) - 4)})
    with run_hub({REPO: other}) as mirror, run_hub({REPO: Repo({"x.gguf": model})}) as origin:
        found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, origin.url, mirror.url))
    [file] = found.files
    assert file.sha256 == hashlib.sha256(model).hexdigest()
    assert file.urls == (f"{origin.url}/{REPO}/resolve/{COMMIT}/x.gguf",)
    assert "its x.gguf is not the one of" in found.notes[0]


def test_a_mirror_that_is_behind_serves_the_commit_it_has(secrets: Secrets, model: bytes) -> None:
    behind = Repo({"x.gguf": model}, main="b" * 40)
    with run_hub({REPO: behind}) as mirror, run_hub({REPO: Repo({"x.gguf": model})}) as origin:
        found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, origin.url, mirror.url))
    assert found.revision == COMMIT
    assert [url.partition("/Qwen")[0] for url in found.files[0].urls] == [mirror.url, origin.url]


def test_what_only_a_mirror_told_is_unverified(secrets: Secrets, model: bytes) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with run_hub({REPO: Repo({"x.gguf": model})}) as mirror:
        found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, dead, mirror.url))
    assert found.notes[0] == f"unverified: its commit and checksums are the word of {mirror.url}"
    assert len(found.files[0].urls) == 2  # hosts may reach the Hub


def test_a_header_that_a_mirror_told_is_not_taken_for_the_hubs(
    secrets: Secrets, model: bytes, tmp_path: Path
) -> None:
    forged = write_gguf(tmp_path / "forged.gguf", vocabulary=9).read_bytes()
    dead = f"http://127.0.0.1:{free_port()}"
    lfs = {"size": len(model), "sha256": hashlib.sha256(model).hexdigest(), "pointerSize": 134}
    listed = {"siblings": [{"rfilename": "x.gguf", "size": len(model), "lfs": lfs}]}
    cache = Cache(tmp_path / "cache")
    with (
        run_hub({REPO: Repo({"x.gguf": forged}, info=listed)}) as mirror,
        run_hub({REPO: Repo({"x.gguf": model})}) as origin,
    ):

        def vocabulary(hub: str) -> int:
            ask = asking(secrets, hub, mirror.url, cache=cache)
            header = resolve_weights(HuggingFace(repo=REPO), "gguf", ask).shape
            assert header is not None
            return header.vocabulary

        assert vocabulary(dead) == 9
        assert vocabulary(origin.url) != 9


def test_checksums_of_small_files_are_remembered_by_content(secrets: Secrets, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for config in (b"{}", b"{} "):  # the same commit and path, as only a forger has them
        repo = Repo(folder(config_json=config))
        with run_hub({REPO: repo}) as hub:
            ask = asking(secrets, hub.url, cache=cache)
            found = resolve_weights(HuggingFace(repo=REPO), "safetensors", ask)
        sums = {file.name: file.sha256 for file in found.files}
        assert sums["config.json"] == hashlib.sha256(config).hexdigest()


def test_a_mirror_that_fails_is_a_note(secrets: Secrets, model: bytes) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with run_hub({REPO: Repo({"x.gguf": model})}) as origin:
        found = resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, origin.url, dead))
    assert any(dead in note and "connection refused" in note for note in found.notes)


@pytest.mark.parametrize("kind", [{"gated": True}, {"private": True}])
def test_a_token_goes_to_the_hub_and_never_to_a_mirror(
    secrets: Secrets, model: bytes, kind: dict[str, bool]
) -> None:
    repos = {REPO: Repo({"x.gguf": model}, **kind)}  # type: ignore[arg-type]
    with run_hub(repos) as mirror, run_hub(repos) as origin:
        found = resolve_weights(
            HuggingFace(repo=REPO, token=REF), "gguf", asking(secrets, origin.url, mirror.url)
        )
    assert mirror.tokens == set()
    assert origin.tokens == {f"Bearer {TOKEN}"}
    # The mirror would refuse the hosts just so: they go straight to the Hub.
    assert found.files[0].urls == (f"{origin.url}/{REPO}/resolve/{COMMIT}/x.gguf",)


def test_a_gated_repository_without_a_token_says_what_to_set(secrets: Secrets, model: bytes) -> None:
    with (
        run_hub({REPO: Repo({"x.gguf": model}, gated=True)}) as origin,
        pytest.raises(HubError, match="gated: its files come only with a token") as error,
    ):
        resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, origin.url))
    assert "`token`" in error.value.do


def test_a_mirror_alone_has_nothing_gated_whatever_token_is_set(secrets: Secrets, model: bytes) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with (
        run_hub({REPO: Repo({"x.gguf": model}, gated=True)}) as mirror,
        pytest.raises(HubError, match="only with a token") as error,
    ):
        resolve_weights(HuggingFace(repo=REPO, token=REF), "gguf", asking(secrets, dead, mirror.url))
    assert mirror.tokens == set()
    assert f"see that this machine reaches {dead}" in error.value.do
    assert "set `token`" not in error.value.do


def test_a_token_that_opens_nothing_is_told_without_showing_it(
    secrets: Secrets, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_TOKEN", "hf_wrong_one")
    with (
        run_hub({REPO: Repo({"x.gguf": model}, private=True)}) as origin,
        pytest.raises(HubError, match="token is not accepted") as error,
    ):
        resolve_weights(HuggingFace(repo=REPO, token=REF), "gguf", asking(secrets, origin.url))
    assert "hf_wrong" not in str(error.value)


def test_a_revision_that_is_not_there_is_told(secrets: Secrets, model: bytes) -> None:
    with (
        run_hub({REPO: Repo({"x.gguf": model})}) as origin,
        pytest.raises(HubError, match="no such repository or revision"),
    ):
        resolve_weights(HuggingFace(repo=REPO, revision="v9"), "gguf", asking(secrets, origin.url))


def test_no_hub_at_all_names_each_with_its_reason(secrets: Secrets) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(HubError) as error:
        resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, "http://hub.invalid", dead))
    assert f"{dead}: connection refused" in error.value.what
    assert "http://hub.invalid: the name does not resolve" in error.value.what


def test_what_is_not_a_hub_is_told(secrets: Secrets) -> None:
    with (
        serve(lambda _: Reply(200, b"<html>captive portal</html>")) as server,
        pytest.raises(HubError, match="did not answer as a Hub does"),
    ):
        resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, server.url))


@pytest.mark.parametrize("name", ["../../etc/cron.d/x.gguf", "/etc/x.gguf", "a\n.gguf"])
def test_a_listing_with_a_name_that_leaves_its_folder_is_refused(secrets: Secrets, name: str) -> None:
    with run_hub({REPO: Repo({name: b"x"})}) as hub, pytest.raises(HubError, match="could leave its folder"):
        resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, hub.url))


@pytest.mark.parametrize(
    "info",
    [
        {"sha": "../../x"},
        {"siblings": [{"rfilename": "x.gguf", "lfs": {"size": 1, "sha256": "no", "pointerSize": 1}}]},
        {"siblings": [{"rfilename": "x.gguf"}]},
        {"siblings": "x"},
        {"siblings": [{"rfilename": 5, "size": 1}]},
    ],
)
def test_a_listing_that_makes_no_sense_is_a_hub_error(secrets: Secrets, info: dict[str, object]) -> None:
    with run_hub({REPO: Repo({}, info=info)}) as hub, pytest.raises(HubError):
        resolve_weights(HuggingFace(repo=REPO), "gguf", asking(secrets, hub.url))


@pytest.mark.parametrize("repo", ["../x", "a/b/c", "-a/b", "a b/c", "https://huggingface.co/a/b"])
def test_what_is_not_a_repository_name_is_never_asked_for(secrets: Secrets, repo: str) -> None:
    with pytest.raises(HubError, match="not a repository name"):
        resolve_weights(HuggingFace(repo=repo), "gguf", asking(secrets, "http://hub.invalid"))


def test_an_address_gives_size_and_header(secrets: Secrets, model: bytes) -> None:
    sha256 = hashlib.sha256(model).hexdigest()
    for ranges in (True, False):
        with run_hub({REPO: Repo({"my model.gguf": model})}, ranges=ranges) as hub:
            url = f"{hub.url}/{REPO}/resolve/main/my%20model.gguf?download=true"
            found = resolve_weights(Url(url=url, sha256=sha256.upper()), "gguf", asking(secrets, hub.url))
        [file] = found.files
        assert (file.name, file.size, file.sha256, file.urls) == ("my model.gguf", len(model), sha256, (url,))
        assert found.shape is not None


def test_an_address_that_is_gone_is_an_error_unless_hosts_hold_the_file(
    secrets: Secrets, model: bytes, tmp_path: Path
) -> None:
    sha256 = hashlib.sha256(model).hexdigest()
    with run_hub({REPO: Repo({"x.gguf": model})}) as hub:
        source = Url(url=f"{hub.url}/{REPO}/resolve/main/x.gguf", sha256=sha256)
        known = resolve_weights(source, "gguf", asking(secrets, hub.url, cache=Cache(tmp_path)))
    with pytest.raises(HubError, match="connection refused"):
        resolve_weights(source, "gguf", asking(secrets, hub.url))
    held = asking(secrets, hub.url, cache=Cache(tmp_path), held={sha256: len(model)})
    again = resolve_weights(source, "gguf", held)
    assert (again.files, again.shape) == (known.files, known.shape)
    assert "hosts hold the file" in again.notes[0]


def test_an_address_must_name_a_file(secrets: Secrets) -> None:
    with pytest.raises(HubError, match="file name"):
        resolve_weights(
            Url(url="http://x.invalid/a/%2e%2e", sha256="0" * 64), "gguf", asking(secrets, "http://x")
        )


def test_a_path_on_the_host_is_taken_at_its_word(secrets: Secrets) -> None:
    found = resolve_weights(HostPath(path="/data/models/x.gguf"), "gguf", asking(secrets, "http://x"))
    assert (found.files, found.entry, found.shape) == ((), "x.gguf", None)
    assert found.notes


def test_tree_ids_are_safe_names_of_exactly_the_content() -> None:
    files = [("b", "1" * 64), ("a", "2" * 64)]
    tree = tree_id("Qwen/Qwen3-4B.GGUF", files)
    lines = f"{'2' * 64}  a\n{'1' * 64}  b\n"
    assert tree == f"qwen-qwen3-4b-gguf-{hashlib.sha256(lines.encode()).hexdigest()[:12]}"
    assert tree_id("Qwen/Qwen3-4B.GGUF", reversed(files)) == tree
    assert tree_id("Qwen/Qwen3-4B.GGUF", [("a", "1" * 64), ("b", "2" * 64)]) != tree
    assert "/" not in tree_id("../../x", files)


def test_the_manifests_mirror_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://from-env.example/")
    assert Hub.of("https://hf-mirror.com").mirror == "https://hf-mirror.com"
    assert Hub.of(None).endpoints == ("https://from-env.example", "https://huggingface.co")
    monkeypatch.delenv("HF_ENDPOINT")
    assert Hub.of(None).endpoints == ("https://huggingface.co",)
