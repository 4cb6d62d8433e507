import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpudeploy.report import numbers
from cpudeploy.types.words import count


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (512 << 20, "512 MiB"),
        (int(3.5 * (1 << 30)), "3.5 GiB"),
        ((1 << 30) - 1, "1 GiB"),
        ((1 << 40) - 1, "1 TiB"),
        (4096 << 40, "4096 TiB"),
        (-(2 << 30), "-2 GiB"),
    ],
)
def test_memory_is_told_in_binary_units(size: int, text: str) -> None:
    assert numbers.memory_size(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (999, "999 B"),
        (86_000_000, "86 MB"),
        (2_200_000_000, "2.2 GB"),
        (999_999_999, "1 GB"),
        (99_960_000, "100 MB"),
    ],
)
def test_downloads_are_told_in_decimal_units(size: int, text: str) -> None:
    assert numbers.data_size(size) == text


@given(st.integers(min_value=0, max_value=1 << 60))
def test_no_size_is_told_with_a_number_that_belongs_to_the_next_unit(size: int) -> None:
    if size < 1 << 49:
        assert float(numbers.memory_size(size).split()[0]) < 1024
    if size < 10**14:
        assert float(numbers.data_size(size).split()[0]) < 1000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.01, "<0.1 s"),
        (0.4, "0.4 s"),
        (3.0, "3 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (273600, "3 d 4 h"),
        (-1, "0 s"),
    ],
)
def test_durations_use_at_most_two_units(seconds: float, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_parts_of_memory_are_told_in_the_unit_of_their_sum() -> None:
    gib = 1 << 30
    parts = {"weights": 2 * gib, "KV": 3 * gib // 4, "state": 0, "tiny": 1 << 20}
    assert numbers.memory_parts(parts) == "2.0 weights + 0.75 KV + <0.01 tiny"
    assert numbers.memory_parts({"weights": 300 << 20, "KV": 20 << 20}) == "300 weights + 20 KV MiB"
    assert numbers.memory_parts({}) == ""


def test_progress_repeats_the_unit_only_where_it_differs() -> None:
    assert numbers.data_progress(1_100_000_000, 2_200_000_000) == "1.1 of 2.2 GB"
    assert numbers.data_progress(900_000_000, 2_200_000_000) == "900 MB of 2.2 GB"


def test_a_hundred_per_cent_means_all_of_it() -> None:
    assert numbers.percent(999_999, 1_000_000) == 99
    assert numbers.percent(5, 5) == 100
    assert numbers.percent(5, 0) == 0


def test_nouns_follow_their_number() -> None:
    assert [count(n, "host") for n in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
