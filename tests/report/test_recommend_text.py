"""Recommendations as a table that fits a terminal, and as blocks where it doesn't."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.report.recommend_text import render_recommendations
from cpudeploy.types.recommendation import (
    Advice,
    Choice,
    Combination,
    EngineAdvice,
    Rate,
    Recommendation,
    Speed,
)

GIB = 1 << 30
SPEED = Speed(read=2 * 10**9, one=Rate(low=4.26, high=12.4), total=Rate(low=15, high=99.6), limit="memory")
FITS = Choice(
    quant="Q4_K_M",
    size=2_500_000_000,
    chosen=True,
    wish=Combination(context=8192, parallel=4, memory=4 * GIB),
    largest=(
        Combination(context=32768, parallel=4, memory=9 * GIB),
        Combination(context=8192, parallel=16, memory=9 * GIB),
    ),
    speed=SPEED,
)
TOO_LARGE = Choice(quant="F16", size=8_000_000_000, estimated=True, why="the models need 17 GiB")
TOLD = Recommendation(
    model="qwen3-4b",
    host="genoa-1",
    context=8192,
    parallel=4,
    threads=16,
    bandwidth=42 * 10**9,
    choices=(FITS, TOO_LARGE),
    advice=Advice(name="qwen3-4b", quant="Q4_K_M", context=8192, parallel=4, why="it fits"),
)  # fmt: skip


def shown(told=TOLD, width=80):
    return render_recommendations([told], colour=False, width=width)


def row(quant, text):
    return next(line for line in text.splitlines() if line.split()[:1] == [quant])


def test_a_row_tells_memory_what_more_would_fit_and_both_speeds():
    line = row("Q4_K_M", shown())
    assert all(part in line for part in ("4 GiB", "yes", "32768 × 4, 8192 × 16", "4.3–12", "15–100"))


def test_what_does_not_fit_has_no_memory_and_no_speed():
    line = row("F16", shown())
    assert "no" in line.split() and "nothing" in line
    assert "–" in line and "GiB" not in line


def test_eighty_columns_are_enough():
    assert max(map(len, shown().splitlines())) <= 80


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_gets_every_value_below_each_other(width):
    text = shown(width=width)
    assert "32768 × 4" in text and "15–100" in text


def test_one_request_at_a_time_has_no_sum():
    assert "together" not in shown(msgspec.structs.replace(TOLD, parallel=1))


def test_why_the_chosen_one_does_not_fit_is_told():
    chosen = msgspec.structs.replace(TOO_LARGE, chosen=True)
    text = shown(msgspec.structs.replace(TOLD, choices=(chosen,), advice=None))
    assert "the models need 17 GiB" in text
    assert "nothing of it fits" in text


def test_lines_to_write_stand_below_each_other_as_yaml():
    advice = msgspec.structs.replace(TOLD.advice, lines=("context: 4096", "parallel: 2"))
    lines = [line.strip() for line in shown(msgspec.structs.replace(TOLD, advice=advice)).splitlines()]
    start = lines.index("models:")
    assert lines[start : start + 4] == ["models:", "qwen3-4b:", "context: 4096", "parallel: 2"]


def test_the_engine_has_a_column_and_a_verdict_where_there_are_two():
    mine = msgspec.structs.replace(FITS, backend="llama")
    other = msgspec.structs.replace(
        FITS, backend="vllm", quant="BF16", chosen=False, estimated=True, size=8_000_000_000
    )
    engine = EngineAdvice(backend="vllm", verdict="poor", reasons=("one request at a time", "it takes 9 GiB"))
    told = msgspec.structs.replace(TOLD, choices=(mine, other), engine=engine)
    text = shown(told, width=100)
    assert "engine" in text.splitlines()[1]
    assert "≈ 8 GB" in row("BF16", text) and "vllm" in row("BF16", text)
    assert "≈" not in row("Q4_K_M", text)
    words = " ".join(text.split())
    assert "vllm: a poor choice here: one request at a time; it takes 9 GiB" in words


def test_one_engine_needs_no_column():
    assert "engine" not in shown(msgspec.structs.replace(TOLD, choices=(FITS,)))


def test_an_unmeasured_host_says_how_to_get_speeds():
    choices = (msgspec.structs.replace(FITS, speed=None),)
    text = shown(msgspec.structs.replace(TOLD, bandwidth=None, choices=choices))
    assert "--measure" in text


def test_ranges_are_explained_by_a_row_that_has_one_where_the_chosen_one_does_not_fit():
    chosen = msgspec.structs.replace(TOO_LARGE, chosen=True)
    other = msgspec.structs.replace(FITS, chosen=False)
    text = " ".join(shown(msgspec.structs.replace(TOLD, choices=(other, chosen))).split())
    assert "Q4_K_M reads 2 GB a token" in text
    text = " ".join(shown(msgspec.structs.replace(TOLD, choices=(chosen,))).split())
    assert "no range: nothing fits as wished" in text


def test_a_problem_stands_in_place_of_a_table_without_what_a_terminal_would_act_on():
    text = shown(Recommendation(model="m", host="h", problem="no route\x1b[2J"))
    assert text == "m on h   no route\\x1b[2J"


def test_nothing_placed_is_said():
    assert render_recommendations([], colour=False, width=80) == "no model is placed here"
