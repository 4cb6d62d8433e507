"""Models in Hugging Face's own form and models on the controller: what their headers say, read the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpudeploy.errors import HubError
from cpudeploy.resolve.cache import Cache
from cpudeploy.resolve.hub import Hub
from cpudeploy.resolve.local import read_local
from cpudeploy.resolve.weights import Asking, resolve_weights
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import to_json
from cpudeploy.types.deployment import HuggingFace
from cpudeploy.types.resolved import ResolvedWeights
from cpudeploy.types.shape import AttentionLayers, Variant

from .folders import MATRICES, PARAMETERS, TABLE, folder, weights
from .gguf_files import TENSOR_BYTES, write_gguf
from .hubs import Repo, run_hub

REPO = "Qwen/Qwen3-0.6B"


def resolved(
    secrets: Secrets, files: dict[str, bytes], form: str, cache: Path | None = None, **source: Any
) -> tuple[ResolvedWeights, int]:
    """What a Hub with these files tells, and how many bytes it sent for it."""
    with run_hub({REPO: Repo(files)}) as hub:
        asking = Asking(hub=Hub(origin=hub.url), secrets=secrets, cache=Cache(cache), held={})
        wanted = HuggingFace(repo=REPO, **source)
        found = resolve_weights(wanted, form, asking)  # type: ignore[arg-type]
        return found, hub.server.sent


def test_a_folder_tells_what_its_configuration_and_headers_say(secrets: Secrets) -> None:
    found, _ = resolved(secrets, folder(), "safetensors")
    assert found.shape is not None
    assert found.shape.attention == (AttentionLayers(layers=1, kv_heads=1, key_length=4, value_length=4),)
    assert (found.shape.architecture, found.shape.parameters) == ("qwen3", PARAMETERS)
    assert found.shape.chat_template is True
    assert found.tensors is not None
    assert (found.tensors.size, found.tensors.matrices) == (2 * PARAMETERS, {"F16": MATRICES + TABLE})
    assert (found.entry, found.projector, found.variants, found.notes) == ("", "", (), ())


def test_only_the_headers_of_large_shards_are_fetched(secrets: Secrets) -> None:
    files = folder()
    whole = files.pop("model.safetensors")
    for number in (1, 2, 3):
        files[f"model-0000{number}-of-00003.safetensors"] = whole + bytes(9_000_000)
    found, sent = resolved(secrets, files, "safetensors")
    assert found.tensors is not None
    assert found.tensors.size == 3 * 2 * PARAMETERS
    assert sent < 2_000_000


def test_what_was_told_once_is_not_asked_again(secrets: Secrets, tmp_path: Path) -> None:
    first, sent = resolved(secrets, folder(), "safetensors", tmp_path)
    again, less = resolved(secrets, folder(), "safetensors", tmp_path)
    assert again.shape == first.shape
    assert again.tensors == first.tensors
    assert less < sent


@pytest.mark.parametrize(
    ("more", "template"),
    [
        ({"tokenizer_config_json": b"{}"}, False),
        ({"tokenizer_config_json": b"{}", "chat_template_jinja": b"{{ messages }}"}, True),
    ],
)
def test_a_chat_template_may_be_a_file_of_its_own(
    secrets: Secrets, more: dict[str, bytes], template: bool
) -> None:
    found, _ = resolved(secrets, folder(**more), "safetensors")
    assert found.shape is not None
    assert found.shape.chat_template is template


def test_a_folder_without_a_configuration_has_no_shape_and_says_why(secrets: Secrets) -> None:
    files = folder()
    del files["config.json"]
    found, _ = resolved(secrets, files, "safetensors")
    assert (found.shape, found.tensors) == (None, None)
    assert "lacks config.json" in found.notes[0]


def test_a_configuration_that_says_too_little_leaves_the_tensors(secrets: Secrets) -> None:
    found, _ = resolved(secrets, folder(config_json=b'{"model_type": "own"}'), "safetensors")
    assert found.shape is None
    assert found.tensors is not None
    assert "number of layers" in found.notes[0]


def test_half_a_character_in_a_name_is_no_obstacle(secrets: Secrets) -> None:
    config = json.loads(folder()["config.json"]) | {"model_type": "\ud800 own"}
    found, _ = resolved(secrets, folder(config_json=json.dumps(config).encode()), "safetensors")
    assert found.shape is not None
    assert found.shape.architecture == "? own"
    assert to_json(found)


@pytest.mark.parametrize("broken", [b"[]", b"{", b"\xff", b'"x"'])
def test_a_broken_configuration_is_refused_in_words(secrets: Secrets, broken: bytes) -> None:
    with pytest.raises(HubError, match="not JSON"):
        resolved(secrets, folder(config_json=broken), "safetensors")


def test_a_byte_order_mark_before_a_configuration_is_nothing_to_stumble_over(
    secrets: Secrets, tmp_path: Path
) -> None:
    files = folder(config_json=b"\xef\xbb\xbf" + folder()["config.json"])
    first, _ = resolved(secrets, files, "safetensors", tmp_path)
    again, _ = resolved(secrets, files, "safetensors", tmp_path)
    assert first.shape is not None
    assert again.shape == first.shape


def test_the_same_weights_once_more_for_other_programs_are_left(secrets: Secrets) -> None:
    files = folder(consolidated_safetensors=weights()) | {"original/x.safetensors": weights()}
    found, _ = resolved(secrets, files, "safetensors")
    assert {file.name for file in found.files} == set(folder())
    alone = {"consolidated.safetensors": weights(), "config.json": folder()["config.json"]}
    found, _ = resolved(secrets, alone, "safetensors")
    assert len(found.files) == 2


def test_a_shard_that_the_index_names_and_nobody_has_is_told_before_anything_is_fetched(
    secrets: Secrets,
) -> None:
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "x.safetensors"}})
    files = folder() | {
        "model-00001-of-00002.safetensors": weights(),
        "x.safetensors": weights(),
        "model.safetensors.index.json": index.encode(),
    }
    assert resolved(secrets, files, "safetensors")[0].shape is not None
    with pytest.raises(HubError, match=r"index\.json names x\.safetensors, which is not among") as error:
        resolved(secrets, files, "safetensors", exclude=("x.*",))
    assert "exclude" in error.value.do


def test_what_is_excluded_is_neither_taken_nor_asked_for(secrets: Secrets) -> None:
    files = folder() | {"figures/deep/large.json": bytes(1000), "vocab.txt": b"a"}
    found, _ = resolved(secrets, files, "safetensors", exclude=("figures/*", "*.txt", "no-such-*"))
    assert {file.name for file in found.files} == set(folder())


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "model.gguf").read_bytes()


def test_a_projector_is_taken_where_it_was_asked_for(secrets: Secrets, model: bytes) -> None:
    files = {
        "x-Q4_0.gguf": model,
        "x-Q8_0.gguf": model + bytes(100),
        "vision/mmproj-x-f16.gguf": b"GGUF",
        "vision/mmproj-x-f32.gguf": b"GGUF ",
    }
    without, _ = resolved(secrets, files, "gguf", quant="Q4_0")
    assert ([file.name for file in without.files], without.projector) == (["x-Q4_0.gguf"], "")
    with_it, _ = resolved(secrets, files, "gguf", quant="Q4_0", mmproj="mmproj-*f16.gguf")
    assert [file.name for file in with_it.files] == ["mmproj-x-f16.gguf", "x-Q4_0.gguf"]
    assert (with_it.entry, with_it.projector) == ("x-Q4_0.gguf", "mmproj-x-f16.gguf")
    assert with_it.shape == without.shape
    assert with_it.tensors == without.tensors
    assert with_it.variants == (Variant(quant="Q8_0", size=len(model) + 100),)


def test_a_gguf_on_the_controller_is_read_like_one_of_a_hub(tmp_path: Path, secrets: Secrets) -> None:
    path = write_gguf(tmp_path / "x-Q8_0.gguf")
    found = read_local(path, "gguf")
    there, _ = resolved(secrets, {path.name: path.read_bytes()}, "gguf")
    assert (found.told.shape, found.told.tensors) == (there.shape, there.tensors)
    assert [file.path for file in found.chosen.files] == ["x-Q8_0.gguf"]


def test_the_shards_beside_a_file_belong_to_it(tmp_path: Path) -> None:
    for number in (1, 2):
        write_gguf(tmp_path / f"x-0000{number}-of-00002.gguf")
    write_gguf(tmp_path / "y.gguf")
    found = read_local(tmp_path / "x-00001-of-00002.gguf", "gguf")
    assert len(found.chosen.files) == 2
    assert found.told.tensors is not None
    assert found.told.tensors.size == 2 * TENSOR_BYTES
    (tmp_path / "x-00002-of-00002.gguf").unlink()
    with pytest.raises(HubError, match="shards 2 of 2 are missing"):
        read_local(tmp_path / "x-00001-of-00002.gguf", "gguf")


def test_a_folder_on_the_controller_is_read_like_one_of_a_hub(tmp_path: Path, secrets: Secrets) -> None:
    for name, data in folder().items():
        (tmp_path / name).write_bytes(data)
    found = read_local(tmp_path, "safetensors")
    there, _ = resolved(secrets, folder(), "safetensors")
    assert (found.told.shape, found.told.tensors) == (there.shape, there.tensors)
    assert json.loads((found.folder / "config.json").read_text())["model_type"] == "qwen3"


def test_a_path_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="No such file"):
        read_local(tmp_path / "x.gguf", "gguf")
