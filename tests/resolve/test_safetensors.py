"""Headers against the safetensors library's own files, and against what an enemy would send."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.errors import HubError
from cpudeploy.resolve.gguf import HEADER_LIMIT, NeedMore
from cpudeploy.resolve.safetensors import Header, parameters_of, parse_header, tensors_of

from .folders import MATRICES, PARAMETERS, SHAPES, TABLE, weights


def parsed(data: bytes) -> Header:
    found = parse_header(data, "x")
    assert isinstance(found, Header)
    return found


def file(tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


def tensor(
    dtype: str = "BF16", shape: tuple[int, ...] = (4, 4), start: int = 0, end: int = 32
) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def test_it_agrees_with_the_safetensors_library(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(weights())
    with safetensors.safe_open(path, framework="np") as theirs:
        counted = {name: math.prod(theirs.get_slice(name).get_shape()) for name in theirs.keys()}  # noqa: SIM118
    found = parsed(path.read_bytes())
    assert found.parameters == sum(counted.values()) == PARAMETERS
    assert found.size == 2 * PARAMETERS
    assert len(path.read_bytes()) == 8 + int.from_bytes(path.read_bytes()[:8], "little") + found.size


def test_matrices_are_what_tokens_are_multiplied_with() -> None:
    found = parsed(weights())
    tied = tensors_of([found], encoder=False)
    assert tied.matrices == {"F16": MATRICES + TABLE}
    assert tied.experts == 16 * 8 * 2
    assert tensors_of([found], encoder=True).matrices == {"F16": MATRICES}
    own = parsed(weights({**SHAPES, "lm_head.weight": (10, 8)}))
    assert tensors_of([own], encoder=False).matrices == {"F16": MATRICES + TABLE}


def test_shards_are_one_model() -> None:
    first = parsed(weights({"model.embed_tokens.weight": (10, 8)}))
    second = parsed(weights({"lm_head.weight": (10, 8)}))
    assert tensors_of([first, second], encoder=False).matrices == {"F16": TABLE}
    assert parameters_of([first, second]) == 160


def test_parameters_that_are_packed_are_not_counted() -> None:
    found = parsed(file({"a.weight": tensor("U8", (4, 8)), "__metadata__": {"format": "pt"}}))
    assert (found.parameters, found.matrices) == (0, {"U8": 32})
    assert parameters_of([found, parsed(weights())]) == 0


def test_every_cut_of_a_header_asks_for_exactly_more() -> None:
    data = weights()
    end = 8 + int.from_bytes(data[:8], "little")
    assert parse_header(data[:7], "x") == NeedMore(8)
    assert {parse_header(data[:cut], "x") for cut in range(8, end)} == {NeedMore(end)}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<html>not found</html>", "not a safetensors file"),
        ((HEADER_LIMIT).to_bytes(8, "little") + b"{", "not a safetensors file"),
        ((2).to_bytes(8, "little") + b"{[", "not what safetensors files have"),
        ((2).to_bytes(8, "little") + b"[]", "not a safetensors file"),
        (file({"a": 1}), "not what safetensors files have"),
        (file({"a": tensor(shape=(-1, 4))}), "no sound shape"),
        (file({"a": tensor(start=40)}), "no sound shape"),
        (file({"a": tensor(shape=(2,) * 50)}), "no sound shape"),
        (file({"a": tensor(shape=(1 << 40, 1 << 40))}), "any machine"),
        (file({"a": tensor(end=1 << 62)}), "any machine"),
    ],
)
def test_claims_that_cannot_be_are_refused_in_words(data: bytes, told: str) -> None:
    with pytest.raises(HubError, match=told):
        parse_header(data, "x")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_headers_never_escape_as_anything_but_a_hub_error(data: st.DataObject) -> None:
    sound = bytearray(weights({"a.weight": (2, 2), "lm_head.weight": (2, 2)}))
    for _ in range(data.draw(st.integers(1, 4))):
        sound[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_header(bytes(sound), "x")
        if isinstance(found, Header):
            tensors_of([found], encoder=False)
    except HubError as error:
        assert error.what and error.do
