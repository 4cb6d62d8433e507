"""Versions, sizes, cpu lists, image references, scalars: tables of what they mean."""

from __future__ import annotations

import itertools

import pytest

from cpudeploy.manifest.images import reference_fault, tag_of
from cpudeploy.manifest.scalars import AmbiguousScalar, plain_value
from cpudeploy.manifest.sizes import check_cpu_list, parse_duration, parse_size
from cpudeploy.manifest.versions import Version, backend_version
from cpudeploy.types.deployment import Backend
from cpudeploy.types.playbook import Playbook

ORDER = [
    "0.9",
    "0.21.0.dev3",
    "0.21",
    "v0.21.1",
    "0.22.0rc1",
    "v0.22.0",
    "1.0",
    "b8999",
    "b9000",
    "b11434",
    "latest",
]


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(ORDER, 2)))
def test_versions_are_ordered(older: str, newer: str) -> None:
    assert Version(older) < Version(newer)
    assert Version(newer) > Version(older)
    assert Version(older) != Version(newer)


def test_versions_compare_with_numbers_and_text_not_with_decimals() -> None:
    assert Version("b9000") >= 9000
    assert Version("v0.21.0") == "0.21"
    assert hash(Version("v0.21.0")) == hash(Version("0.21"))
    assert not Version("server").known
    with pytest.raises(TypeError):
        assert Version("0.21") >= 0.2


@pytest.mark.parametrize(
    ("image", "said", "version"),
    [
        ("ghcr.io/x/y:server-b9000", None, "9000"),
        ("ghcr.io/x/y:server", None, ""),
        ("ghcr.io/x/y:server", "b8000", "b8000"),
        ("ghcr.io/x/y@sha256:" + "0" * 64, None, ""),
    ],
)
def test_the_version_is_as_said_else_in_the_tag_else_unknown(
    image: str, said: str | None, version: str
) -> None:
    playbook = Playbook(name="p", kind="engine", version_pattern="b([0-9]+)$")
    assert (
        str(backend_version(Backend(name="b", playbook="p", image=image, version=said), playbook)) == version
    )


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ("8GiB", 8 * 2**30),
        ("512MiB", 2**29),
        ("8GB", 8 * 10**9),
        ("1.5GiB", 3 * 2**29),
        (2**30, 2**30),
        (0, 0),
        ("2 gib", 2**31),
    ],
)
def test_sizes(written: int | str, bytes_: int) -> None:
    assert parse_size(written) == bytes_


@pytest.mark.parametrize(
    "written", ["", "8", "GiB", "8 G", "-8GiB", "8GiBB", "1e3GiB", 16, -1, 2**60, "9" * 99 + "B"]
)
def test_what_is_no_size(written: int | str) -> None:
    with pytest.raises(ValueError, match=r"size|range|only"):
        parse_size(written)


@pytest.mark.parametrize(("written", "seconds"), [(0, 0), (30, 30), ("45s", 45), ("2m", 120), ("60m", 3600)])
def test_times(written: int | str, seconds: int) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("written", ["", "s", "-1s", -1, "1h", "1.5s", "61m", 3601, " 3s"])
def test_what_is_no_time(written: int | str) -> None:
    with pytest.raises(ValueError, match=r"time|more"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["0-7", "0-3,8", "0,1", "5-5"])
def test_cpu_lists(written: str) -> None:
    check_cpu_list(written)


@pytest.mark.parametrize(
    "written", ["8", "3-1", "0-2,1", "", "a", "0-", "0--1", ",", "0, 1", "1-99999999", "0-65536"]
)
def test_what_is_no_cpu_list(written: str) -> None:
    with pytest.raises(ValueError, match=r"text|not|list"):
        check_cpu_list(written)


@pytest.mark.parametrize(
    ("reference", "tag"),
    [
        ("vllm/vllm-openai-cpu:v0.21.0", "v0.21.0"),
        ("ghcr.io/ggml-org/llama.cpp:server-b9000", "server-b9000"),
        ("localhost:5000/a/b_c__d:1", "1"),
        ("[::1]:5000/a:b", "b"),
        ("a@sha256:" + "0" * 64, ""),
        ("r.io:443/a:b@sha256:" + "f" * 64, "b"),
    ],
)
def test_image_references(reference: str, tag: str) -> None:
    assert reference_fault(reference) is None
    assert tag_of(reference) == tag


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "a",
        "r.io/a",
        "r.io:5000/a",
        "-a:b",
        "a:-b",
        "A/b:c",
        "a b:c",
        "a:b\n",
        "a:b@sha256:00",
        "docker://a:b",
        "a/../b:c",
    ],
)
def test_what_is_no_image_reference(reference: str) -> None:
    assert reference_fault(reference) is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("true", True),
        ("FALSE", False),
        ("no", "no"),
        ("On", "On"),
        ("y", "y"),
        ("0", 0),
        ("-12", -12),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2001-01-01", "2001-01-01"),
        ("v1", "v1"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["010", "-007", "00", ".inf", "-.INF", ".nan", "1e999", "9" * 30, "9" * 9000, "0x" + "f" * 99]
)
def test_plain_scalars_that_nobody_should_guess_at(text: str) -> None:
    with pytest.raises(AmbiguousScalar):
        plain_value(text)
