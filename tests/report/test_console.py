import io
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import pytest

from cpudeploy.report.console import PLAIN_WIDTH, console_for


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
        yield stream
    os.close(master)


def test_a_pipe_gets_no_colour_and_a_width_of_its_own() -> None:
    console = console_for(io.StringIO(), {"TERM": "xterm"})
    assert (console.terminal, console.colour, console.width) == (False, False, PLAIN_WIDTH)


def test_a_terminal_gets_colour(terminal: TextIO) -> None:
    console = console_for(terminal, {"TERM": "xterm"})
    assert console.terminal
    assert console.colour


def test_no_color_takes_the_colour_and_leaves_the_terminal(terminal: TextIO) -> None:
    console = console_for(terminal, {"TERM": "xterm", "NO_COLOR": "1"})
    assert console.terminal
    assert not console.colour
    assert console_for(terminal, {"TERM": "xterm", "NO_COLOR": ""}).colour


def test_a_dumb_terminal_is_none(terminal: TextIO) -> None:
    assert not console_for(terminal, {"TERM": "dumb"}).terminal


@pytest.mark.parametrize(
    ("columns", "width"), [("200", 200), ("10", 40), ("0", PLAIN_WIDTH), ("x", PLAIN_WIDTH)]
)
def test_columns_decide_the_width_within_reason(columns: str, width: int) -> None:
    assert console_for(io.StringIO(), {"COLUMNS": columns}).width == width


def test_a_terminal_that_does_not_know_its_width_is_taken_for_eighty(terminal: TextIO) -> None:
    assert console_for(terminal, {"TERM": "xterm"}).width == 80


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("ascii", "8192 → 16384 · ✓ 模", b"8192 -> 16384 - ok \\u6a21\n"),
        ("utf-8", "8192 → 模", "8192 → 模\n".encode()),
        ("utf-8", "a\udcffb", b"a\\udcffb\n"),
    ],
)
def test_what_the_encoding_lacks_is_replaced_not_raised(encoding: str, text: str, written: bytes) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console_for(stream, {}).write(text)
    assert raw.getvalue() == written
