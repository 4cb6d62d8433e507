"""Models of this machine: what is sent, what it is called, and what is refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from cpudeploy.errors import HubError
from cpudeploy.resolve.cache import Cache
from cpudeploy.resolve.hub import Hub
from cpudeploy.resolve.uploads import changed
from cpudeploy.resolve.weights import Asking, resolve_weights
from cpudeploy.secrets import Secrets
from cpudeploy.types.deployment import Upload
from cpudeploy.types.resolved import ResolvedWeights, WeightFile

from .folders import folder
from .gguf_files import TENSOR_BYTES, write_gguf


def resolved(base: Path, path: str, form: str = "gguf", cache: Path | None = None) -> ResolvedWeights:
    asking = Asking(hub=Hub(), secrets=Secrets(base), cache=Cache(cache), held={}, base=str(base))
    return resolve_weights(Upload(path=path), form, asking)  # type: ignore[arg-type]


def files(found: ResolvedWeights) -> list[WeightFile]:
    return [file for file in found.files if isinstance(file, WeightFile)]


def put(place: Path, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_a_file_is_seen_from_the_manifests_folder_with_its_checksum_and_header(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    path = write_gguf(tmp_path / "models" / "x-Q8_0.gguf")
    found = resolved(tmp_path, "models/x-Q8_0.gguf")
    (file,) = files(found)
    assert (file.name, file.upload, file.urls) == ("x-Q8_0.gguf", str(path), ())
    assert (file.size, file.sha256) == (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
    assert (found.entry, found.source) == ("x-Q8_0.gguf", "upload models/x-Q8_0.gguf")
    assert found.shape is not None and found.shape.layers == 2
    assert found.tensors is not None and found.tensors.size == TENSOR_BYTES


def test_shards_beside_a_file_go_with_it(tmp_path: Path) -> None:
    for number in (1, 2):
        write_gguf(tmp_path / f"x-0000{number}-of-00002.gguf")
    write_gguf(tmp_path / "y.gguf")
    found = resolved(tmp_path, "x-00001-of-00002.gguf")
    assert [file.name for file in files(found)] == ["x-00001-of-00002.gguf", "x-00002-of-00002.gguf"]


def test_a_folder_goes_as_engines_read_it_with_what_is_below_it(tmp_path: Path) -> None:
    put(tmp_path / "m", folder() | {"sub/deep/vocab.txt": b"a", ".git/x.json": b"{}", "notes.md": b"x"})
    found = resolved(tmp_path, "m", "safetensors")
    names = {file.name for file in files(found)}
    assert names == {"config.json", "model.safetensors", "tokenizer_config.json", "sub/deep/vocab.txt"}
    assert found.shape is not None


def test_the_same_content_is_the_same_tree_and_another_is_another(tmp_path: Path) -> None:
    put(tmp_path / "m", folder())
    first = resolved(tmp_path, "m", "safetensors")
    assert resolved(tmp_path, str(tmp_path / "m"), "safetensors").tree == first.tree
    put(tmp_path / "m", {"tokenizer_config.json": b"{}"})
    assert resolved(tmp_path, "m", "safetensors").tree != first.tree


def test_a_file_is_hashed_again_only_when_it_is_another(tmp_path: Path) -> None:
    path, cache = write_gguf(tmp_path / "x.gguf"), tmp_path / "cache"
    first = files(resolved(tmp_path, "x.gguf", cache=cache))[0].sha256
    (entry,) = (cache / "uploads").iterdir()
    entry.write_text(f'"{"0" * 64}"')
    assert files(resolved(tmp_path, "x.gguf", cache=cache))[0].sha256 == "0" * 64, "what is kept is believed"
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as some copying programs do
    again = files(resolved(tmp_path, "x.gguf", cache=cache))[0].sha256
    assert again == hashlib.sha256(data).hexdigest() != first


def test_a_missing_file_is_one_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="No such file") as error:
        resolved(tmp_path, "models/x.gguf")
    assert str(tmp_path / "models/x.gguf") in str(error.value)


def test_several_models_in_a_folder_are_listed_with_what_to_do(tmp_path: Path) -> None:
    for name in ("x-Q4_0.gguf", "x-Q8_0.gguf"):
        (tmp_path / "m").mkdir(exist_ok=True)
        write_gguf(tmp_path / "m" / name)
    with pytest.raises(HubError, match="several models fit") as error:
        resolved(tmp_path, "m")
    assert "quant" not in error.value.do and "x-Q" not in error.value.do
    assert "the file itself" in error.value.do


def test_links_within_a_folder_are_followed_and_those_out_of_it_refused(tmp_path: Path) -> None:
    put(tmp_path / "m", folder() | {"real/vocab.txt": b"a"})
    (tmp_path / "m" / "vocab.txt").symlink_to("real/vocab.txt")
    assert "vocab.txt" in {file.name for file in files(resolved(tmp_path, "m", "safetensors"))}
    put(tmp_path, {"id_rsa": b"secret"})
    (tmp_path / "m" / "merges.txt").symlink_to("../id_rsa")
    with pytest.raises(HubError, match="outside of the folder"):
        resolved(tmp_path, "m", "safetensors")


def test_a_snapshot_of_the_hubs_own_cache_can_be_sent(tmp_path: Path) -> None:
    repo = tmp_path / "models--org--m"
    for number, (name, data) in enumerate(folder().items()):
        put(repo / "blobs", {str(number): data})
        link = repo / "snapshots" / "abc" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../blobs/{number}")
    found = resolved(tmp_path, "models--org--m/snapshots/abc", "safetensors")
    assert {file.name for file in files(found)} == set(folder())


def test_the_path_itself_may_be_a_link_to_anywhere(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    write_gguf(tmp_path / "far" / "real.gguf")
    (tmp_path / "near" / "x.gguf").symlink_to(tmp_path / "far" / "real.gguf")
    assert [file.name for file in files(resolved(tmp_path, "near/x.gguf"))] == ["x.gguf"]


def test_a_file_that_a_plan_names_is_known_to_be_another_or_gone(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf")
    (file,) = files(resolved(tmp_path, "x.gguf"))
    assert changed(file, None) == ""
    path.write_bytes(path.read_bytes() + b"\0")
    assert "changed since" in changed(file, None)
    path.unlink()
    assert "No such file" in changed(file, None)


@pytest.mark.parametrize("form", ["gguf", "safetensors"])
def test_what_is_no_file_is_refused_unread(tmp_path: Path, form: str) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "device.gguf").symlink_to("/dev/zero")
    for name in ("pipe.gguf", "device.gguf"):
        with pytest.raises(HubError, match="neither a file nor a folder"):
            resolved(tmp_path, name, form)


def test_a_pipe_in_the_place_of_a_planned_file_is_a_change(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf")
    (file,) = files(resolved(tmp_path, "x.gguf"))
    path.unlink()
    os.mkfifo(path)
    assert "neither a file nor a folder" in changed(file, None)


@pytest.mark.parametrize("path", ["~no-such-user/m.gguf", "m" * 300 + ".gguf", "pipe.gguf", "locked/m.gguf"])
def test_a_path_that_gives_nothing_to_read_is_told(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "locked").write_bytes(b"no folder")
    with pytest.raises(HubError) as refused:
        resolved(tmp_path, path)
    assert refused.value.do


def test_a_pipe_beside_a_shard_is_no_shard(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x-00001-of-00002.gguf")
    os.mkfifo(tmp_path / "x-00002-of-00002.gguf")
    with pytest.raises(HubError, match="shards 2 of 2 are missing"):
        resolved(tmp_path, "x-00001-of-00002.gguf")


def test_a_folder_of_far_more_than_a_model_is_refused_and_not_taken_in_part(tmp_path: Path) -> None:
    put(tmp_path / "m", folder())
    for number in range(10_001):
        (tmp_path / "m" / f"{number}.txt").touch()
    with pytest.raises(HubError, match="more than 10000 files"):
        resolved(tmp_path, "m", "safetensors")


def test_a_file_is_found_among_any_number_of_others(tmp_path: Path) -> None:
    for number in range(10_001):
        (tmp_path / f"{number}.txt").touch()
    write_gguf(tmp_path / "x.gguf")
    assert [file.name for file in files(resolved(tmp_path, "x.gguf"))] == ["x.gguf"]
