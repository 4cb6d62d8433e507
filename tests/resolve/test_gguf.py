"""Headers against the gguf library's own reader, and against what an enemy would send."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.errors import HubError
from cpudeploy.resolve.files import read_header
from cpudeploy.resolve.ggml import TYPES
from cpudeploy.resolve.gguf import HEADER_LIMIT, NeedMore, Parsed, parse_header
from cpudeploy.resolve.gguf_shape import describe, tensors_of
from cpudeploy.types.base import from_json, to_json
from cpudeploy.types.shape import AttentionLayers, ModelShape

from .gguf_files import TENSOR_BYTES, write_gguf


def header_of(path: Path) -> ModelShape:
    with path.open("rb") as file:
        return describe(read_header(file, "x", parse_header), where="x")


def parsed(data: bytes) -> Parsed:
    found = parse_header(data, "x")
    assert isinstance(found, Parsed)
    return found


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def header(*keys: bytes, tensors: int = 0, count: int | None = None, version: int = 3) -> bytes:
    return (
        b"GGUF"
        + struct.pack("<IQQ", version, tensors, len(keys) if count is None else count)
        + b"".join(keys)
    )


def test_it_agrees_with_the_gguf_library(tmp_path: Path) -> None:
    def more(writer: Any) -> None:
        writer.add_head_count_kv(2)
        writer.add_key_length(16)
        writer.add_chat_template("{{ messages }}")
        writer.add_name("größer")
        writer.add_rope_freq_base(10000.0)

    path = write_gguf(tmp_path / "x.gguf", more=more)
    ours, theirs = header_of(path), gguf.GGUFReader(path)
    with path.open("rb") as file:
        head = read_header(file, "x", parse_header)
    assert tensors_of([(head, 0)]).size == sum(tensor.n_bytes for tensor in theirs.tensors) == TENSOR_BYTES
    assert ours.vocabulary == len(theirs.fields["tokenizer.ggml.tokens"].data) == 300
    for name, field in theirs.fields.items():
        if name.startswith("GGUF.") or field.types[0] == gguf.GGUFValueType.ARRAY:
            continue
        if name != "tokenizer.chat_template":
            assert head.metadata[name] == field.contents()
    assert head.data_offset == theirs.data_offset
    assert (ours.architecture, ours.layers, ours.context_length, ours.embedding) == ("llama", 2, 4096, 64)
    assert ours.attention == (AttentionLayers(layers=2, kv_heads=2, key_length=16, value_length=8),)
    assert ours.chat_template is True


def test_every_tensor_type_of_the_library_has_its_size() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert theirs.items() <= {kind: tuple(its) for kind, its in TYPES.items()}.items()


def test_what_a_header_leaves_out_follows_from_the_rest(tmp_path: Path) -> None:
    ours = header_of(
        write_gguf(tmp_path / "x.gguf", vocabulary=0, more=lambda writer: writer.add_vocab_size(77))
    )
    assert ours.attention == (AttentionLayers(layers=2, kv_heads=8, key_length=8, value_length=8),)
    assert (ours.vocabulary, ours.chat_template) == (77, False)


def test_heads_may_differ_by_layer(tmp_path: Path) -> None:
    ours = header_of(write_gguf(tmp_path / "x.gguf", more=lambda writer: writer.add_head_count_kv([4, 0])))
    assert ours.attention == (AttentionLayers(layers=1, kv_heads=4, key_length=8, value_length=8),)


def test_a_vocabulary_of_megabytes_is_hopped_over(tmp_path: Path) -> None:
    assert header_of(write_gguf(tmp_path / "x.gguf", vocabulary=150_000)).vocabulary == 150_000


def test_version_2_is_read_and_others_are_refused() -> None:
    assert parsed(header(version=2)).data_offset == 32
    for version in (1, 4):
        with pytest.raises(HubError, match=f"GGUF version {version}"):
            parse_header(header(version=version), "x")


def test_big_endian_files_are_refused_with_words(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", endianess=gguf.GGUFEndian.BIG)
    with pytest.raises(HubError, match="big-endian"):
        header_of(path)


def test_every_cut_of_a_header_asks_for_more_and_never_for_too_much(tmp_path: Path) -> None:
    data = write_gguf(tmp_path / "x.gguf", vocabulary=20).read_bytes()
    end = parsed(data).data_offset
    for cut in range(end - 32):
        short = parse_header(data[:cut], "x")
        assert isinstance(short, NeedMore)
        assert cut < short.size <= end


def test_a_file_that_ends_within_its_header_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(write_gguf(tmp_path / "whole.gguf").read_bytes()[:500])
    with pytest.raises(HubError, match="ends within its header"):
        header_of(path)


HUGE = 2**63


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<html>not found</html>", "not a GGUF file"),
        (header(count=HUGE), "metadata keys"),
        (header(tensors=HUGE), "tensors"),
        (header(struct.pack("<Q", HUGE)), "bytes in one string"),
        (header(key("a", 99, b"")), "type of a value"),
        (header(key("a", 9, struct.pack("<IQ", 9, 1))), "array within an array"),
        (header(key("a", 9, struct.pack("<IQ", 8, HUGE))), "strings in one array"),
        (
            header(key("a", 9, struct.pack("<IQ", 8, 2) + struct.pack("<Q", HUGE) + b" " * 9)),
            "more than 64 MiB",
        ),
        (header(key("a", 9, struct.pack("<IQ", 12, HUGE))), "values in one array"),
        (header(key("a", 9, struct.pack("<IQ", 12, HEADER_LIMIT))), "more than 64 MiB"),
        (header(key("a", 4, b"1234"), key("a", 4, b"1234")), "twice"),
        (header(key("general.alignment", 4, struct.pack("<I", 0))), "general.alignment"),
        (header(text("t") + struct.pack("<I", 99), tensors=1, count=0), "dimensions"),
        (
            header(text("t") + struct.pack("<IQQIQ", 2, 1 << 50, 1 << 50, 0, 0), tensors=1, count=0),
            "any machine",
        ),
    ],
)
def test_claims_that_cannot_be_are_refused_in_words(data: bytes, told: str) -> None:
    with pytest.raises(HubError, match=told):
        parse_header(data, "x")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ([], "names no architecture"),
        ([key("general.architecture", 8, text("clip"))], "not a language model by itself"),
        (
            [key("general.architecture", 8, text("l")), key("l.block_count", 4, struct.pack("<I", 2**31))],
            "l.block_count is",
        ),
        (
            [key("general.architecture", 8, text("l")), key("l.block_count", 8, text("two"))],
            "l.block_count is",
        ),
        (
            [
                key("general.architecture", 8, text("l")),
                key("l.block_count", 4, struct.pack("<I", 2)),
                key("l.attention.head_count_kv", 9, struct.pack("<IQI", 4, 1, 8)),
            ],
            "does not fit 2 layers",
        ),
    ],
)
def test_what_is_no_language_model_is_refused(keys: list[bytes], told: str) -> None:
    with pytest.raises(HubError, match=told):
        describe(parsed(header(*keys)), where="x")


def test_a_tensor_type_newer_than_our_table_counts_by_the_files_size() -> None:
    data = header(
        key("general.architecture", 8, text("l")),
        key("l.block_count", 4, struct.pack("<I", 1)),
        text("t") + struct.pack("<IQIQ", 1, 64, 9999, 0),
        tensors=1,
        count=2,
    )
    found = parsed(data)
    assert tensors_of([(found, found.data_offset + 5000)]).size == 5000


def test_a_header_survives_its_json_form() -> None:
    not_a_number = key("nan", 6, struct.pack("<f", float("nan")))
    largest = key("u64", 10, struct.pack("<Q", 2**64 - 1))
    found = parsed(header(not_a_number, largest, key("long", 8, text("x" * 5000)), key("text", 8, text("y"))))
    assert from_json(to_json(found), Parsed) == found
    assert found.metadata == {"u64": 2**64 - 1, "text": "y"}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_headers_never_escape_as_anything_but_a_hub_error(data: st.DataObject) -> None:
    sound = bytearray(
        header(
            key("general.architecture", 8, text("llama")),
            key("llama.block_count", 4, struct.pack("<I", 2)),
            key("a", 9, struct.pack("<IQ", 8, 2) + text("x") + text("y")),
            text("t") + struct.pack("<IQIQ", 1, 64, 0, 0),
            tensors=1,
            count=3,
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        sound[data.draw(st.integers(0, len(sound) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_header(bytes(sound), "x")
        if isinstance(found, Parsed):
            describe(found, where="x")
    except HubError as error:
        assert error.what and error.do
