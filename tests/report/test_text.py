import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cpudeploy.report.text import Cell, Ink, cells, clean, flow, shorten_pair, truncate, wrap

from .samples import HOSTILE

PLAIN = Ink(False)


@given(st.text())
def test_clean_text_has_nothing_a_terminal_acts_on_and_stays_one_line(text: str) -> None:
    shown = clean(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    assert clean(shown) == shown


def test_what_is_dangerous_stays_readable() -> None:
    assert clean(HOSTILE) == r"\x1b[2J\x1b]0;owned\x07 [bold red]x[/] \x9b31m \u202egnp.exe a\rb"


def test_ordinary_words_of_any_script_pass() -> None:
    assert clean("模型 Größe → ✓") == "模型 Größe → ✓"


def test_wide_characters_count_double_and_combining_ones_nothing() -> None:
    assert cells("模型") == 4
    assert cells("e\u0301") == 1


def test_cut_text_fits_and_shows_the_cut() -> None:
    assert truncate("模型模型", 5) == "模型…"
    assert truncate("short", 5) == "short"


@given(st.text(alphabet="ab ", max_size=60), st.integers(min_value=5, max_value=30))
def test_wrapping_loses_no_word_and_breaks_none(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(cells(line) <= width or " " not in line.strip() for line in lines)


def test_two_long_values_are_cut_around_their_first_difference() -> None:
    before, after = shorten_pair("x" * 200 + "old" + "y" * 50, "x" * 200 + "new" + "y" * 50, 30)
    assert "old" in before
    assert "new" in after
    assert cells(before) <= 30


@given(st.text(alphabet="ab", max_size=80), st.text(alphabet="ab", max_size=80))
def test_values_that_differ_still_differ_when_cut(before: str, after: str) -> None:
    if before != after:
        short = shorten_pair(before, after, 20)
        assert short[0] != short[1]


def test_a_tail_hangs_beside_its_head() -> None:
    lines = flow(PLAIN, [Cell("  + "), Cell("docker", "", 8)], "one two three four five six seven", width=40)
    assert lines[0].startswith("  + docker  one")
    assert all(line.startswith(" " * 12) for line in lines[1:])
    assert all(cells(line) <= 40 for line in lines)


def test_a_tail_goes_below_where_there_is_no_room_beside() -> None:
    lines = flow(PLAIN, [Cell("  " + "n" * 30)], "what there is to say about it", width=40)
    assert lines == ["  " + "n" * 30, "      what there is to say about it"]


def test_line_ends_in_a_tail_can_not_forge_a_line_of_ours() -> None:
    lines = flow(PLAIN, [Cell("! ")], "warning\n+ docker", width=80)
    assert lines == ["! warning", "  + docker"]


def test_colour_changes_nothing_but_colour() -> None:
    head, tail = [Cell("  "), Cell("a", "bold", 6)], "text " * 30
    plain = flow(PLAIN, head, tail, width=50)
    painted = flow(Ink(True), head, tail, width=50, style="dim")
    assert [
        line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") for line in painted
    ] == plain


def test_no_line_ends_in_padding() -> None:
    assert flow(PLAIN, [Cell("a", "", 9)], width=40) == ["a"]
    assert flow(Ink(True), [Cell("a", "bold", 9)], width=40) == ["\x1b[1ma\x1b[0m"]
