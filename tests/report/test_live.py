import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cpudeploy.report.console import Console
from cpudeploy.report.json_text import JsonLines, json_document
from cpudeploy.report.live import live
from cpudeploy.report.live_lines import LiveLines
from cpudeploy.report.live_table import LiveTable
from cpudeploy.types.base import from_json
from cpudeploy.types.event import (
    ChangeFinished,
    ChangeStarted,
    Event,
    HostFinished,
    HostStarted,
    Note,
    OperationStarted,
    Progress,
    StopAsked,
)

from .samples import HOSTILE, sample_plan

CONTROL = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool = False, colour: bool = False, width: int = 110) -> Console:
    return Console(stream=io.StringIO(), terminal=terminal, colour=colour, width=width)


def written(where: Console) -> str:
    assert isinstance(where.stream, io.StringIO)
    return where.stream.getvalue()


def start(text: str = "fetches MiniCPM5-1B-F16.gguf") -> list[Event]:
    return [
        HostStarted(host="small-1"),
        ChangeStarted(host="small-1", change="small-1/3", subject="weights"),
        OperationStarted(host="small-1", change="small-1/3", operation="fetch", text=text),
    ]


def progress(**kw: int | str) -> Progress:
    return Progress(host="small-1", change="small-1/3", operation="fetch", **kw)  # type: ignore[arg-type]


def test_plain_lines_tell_host_change_operation_and_end() -> None:
    out = console()
    lines = LiveLines(out, sample_plan(), clock=Clock())
    for event in start():
        lines.tell(event)
    lines.tell(
        Note(host="small-1", change="small-1/3", text="hf-mirror.com: 503, next source", level="warning")
    )
    lines.tell(
        ChangeFinished(host="small-1", change="small-1/3", subject="weights", status="done", seconds=35)
    )
    lines.tell(HostFinished(host="small-1", status="done", seconds=48))
    assert written(out) == (
        "small-1  starts\n"
        "small-1  weights: starts\n"
        "small-1  weights: fetches MiniCPM5-1B-F16.gguf\n"
        "small-1  weights: warning: hf-mirror.com: 503, next source\n"
        "small-1  ✓ weights: done in 35 s\n"
        "small-1  host done after 48 s\n"
    )


def test_what_is_said_of_a_whole_host_is_of_no_change() -> None:
    out = console()
    LiveLines(out, sample_plan(), clock=Clock()).tell(Note(host="small-1", change="", text="put right first"))
    assert written(out).split() == ["small-1", "put", "right", "first"]


def test_on_a_terminal_it_is_of_no_change_either() -> None:
    out = console(terminal=True)
    with LiveTable(out, sample_plan(), clock=Clock()) as table:
        table.tell(Note(host="small-1", change="", text="put right first"))
    assert "· small-1 put right first" in " ".join(CONTROL.sub("", written(out)).split())


def test_progress_is_told_at_most_every_ten_seconds_a_host() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    for event in start():
        lines.tell(event)
    before = len(written(out).splitlines())
    for second in range(35):
        clock.now = 100.0 + second
        lines.tell(progress(done=second * 50_000_000, total=2_200_000_000))
    told = written(out).splitlines()[before:]
    assert len(told) == 3
    assert told[0] == (
        "small-1  weights: still fetches MiniCPM5-1B-F16.gguf · 10 s · "
        "500 MB of 2.2 GB · 22 % · 50 MB/s · 35 s left"
    )


def test_a_silent_operation_still_gives_a_sign_with_host_step_and_last_line() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    for event in start("waits for the gate"):
        lines.tell(event)
    lines.tell(progress(text="loading tensors"))
    lines.beat()
    assert "still" not in written(out)
    clock.now += 40
    lines.beat()
    assert (
        written(out).splitlines()[-1] == "small-1  weights: still waits for the gate · 40 s · loading tensors"
    )


def test_waiting_for_a_model_shows_how_long_it_may_still_take() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    for event in start("wait until rag_qwen_0 serves"):
        lines.tell(
            msgspec.structs.replace(event, at_most_s=300) if isinstance(event, OperationStarted) else event
        )
    lines.tell(progress(text="loading tensors"))
    clock.now += 40
    lines.beat()
    assert written(out).splitlines()[-1] == (
        "small-1  weights: still wait until rag_qwen_0 serves · 40 s of at most 5 min · loading tensors"
    )


@pytest.mark.parametrize("kind", [LiveLines, LiveTable])
def test_who_asks_to_stop_is_told_at_once_what_will_happen(
    kind: Callable[..., LiveLines | LiveTable],
) -> None:
    out, clock = console(width=240), Clock()
    with kind(out, sample_plan(), clock=clock) as display:
        for event in start():
            display.tell(msgspec.structs.replace(event, host="genoa-1"))
        for event in start("create rag_qwen_0"):
            display.tell(event)
        display.tell(
            OperationStarted(host="genoa-1", change="c", operation="o", text="fetch m.gguf", may_be_cut=True)
        )
        display.tell(StopAsked())
        display.tell(StopAsked(now=True))
    shown = written(out)
    assert (
        "interrupted; finishing: create rag_qwen_0 on small-1; ending: fetch m.gguf on genoa-1; "
        "no other change is begun, one in the middle is undone; once more to stop now" in shown
    )
    assert "stopping now: connections are closed" in shown


def test_a_host_that_hangs_before_its_first_change_gives_a_sign_too() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    lines.tell(HostStarted(host="small-1"))
    clock.now += 15
    lines.beat()
    assert written(out).splitlines()[-1] == "small-1  still checks the host · 15 s"


def test_a_host_with_nothing_to_do_is_not_said_to_be_at_work() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    lines.tell(HostStarted(host="idle"))
    clock.now += 100
    lines.beat()
    assert "still" not in written(out)


def test_a_host_that_waits_its_turn_is_silent() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    for event in start():
        lines.tell(event)
    lines.tell(
        ChangeFinished(host="small-1", change="small-1/3", subject="weights", status="done", seconds=1)
    )
    clock.now += 100
    before = written(out)
    lines.beat()
    assert written(out) == before


@pytest.mark.parametrize("kind", [LiveLines, JsonLines, LiveTable])
def test_an_apply_goes_on_when_its_reader_went_away(
    kind: Callable[..., LiveLines | JsonLines | LiveTable],
) -> None:
    reader, writer = os.pipe()
    stream = open(writer, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (a descriptor, closed in pieces)
    os.close(reader)
    out = Console(stream=stream, terminal=False, colour=False, width=80)
    display = kind(out) if kind is JsonLines else kind(out, sample_plan())
    with display:
        for event in [*start(), Note(host="small-1", change="small-1/3", text="so far so good")]:
            display.tell(event)
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_nothing_beats_for_a_host_that_is_done() -> None:
    out, clock = console(), Clock()
    lines = LiveLines(out, sample_plan(), clock=clock)
    for event in start():
        lines.tell(event)
    lines.tell(HostFinished(host="small-1", status="failed", seconds=1))
    clock.now += 100
    before = written(out)
    lines.beat()
    assert written(out) == before


def test_the_heartbeat_ends_with_the_display() -> None:
    with LiveLines(console(), sample_plan()):
        assert any(thread.name == "heartbeat" for thread in threading.enumerate())
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())


@pytest.mark.parametrize("kind", [LiveLines, LiveTable])
def test_text_of_hosts_is_never_interpreted(kind: Callable[..., LiveLines | LiveTable]) -> None:
    out, clock = console(), Clock()
    with kind(out, sample_plan(), clock=clock) as display:
        for event in start(HOSTILE):
            display.tell(event)
        clock.now += 20
        display.tell(progress(text=HOSTILE))
        display.tell(Note(host="small-1", change="small-1/3", text=HOSTILE))
        display.tell(
            ChangeFinished(
                host="small-1", change="x", subject=HOSTILE, status="failed", seconds=1, text=HOSTILE
            )
        )
    shown = written(out)
    assert "\x1b[2J" not in shown
    assert "\x1b]0" not in shown
    assert not set(shown) & set("\x07\x9b\u202e")
    assert r"\x1b[2J\x1b]0;owned\x07 [bold red]x[/]" in shown


@pytest.mark.parametrize("kind", [LiveLines, JsonLines, LiveTable])
def test_many_threads_may_tell_and_every_line_stays_whole(
    kind: Callable[..., LiveLines | JsonLines | LiveTable],
) -> None:
    out = console(width=200)
    display = kind(out) if kind is JsonLines else kind(out, sample_plan())
    note = "x" * 40

    def run(name: str) -> None:
        for number in range(50):
            display.tell(OperationStarted(host=name, change="c", operation="o", text="works"))
            display.tell(Note(host=name, change="c", text=f"{note} {name} {number}"))

    threads = [threading.Thread(target=run, args=(f"h{i}",)) for i in range(4)]
    with display:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in ("h0", "h3"):
        for number in (0, 49):
            assert f"{note} {name} {number}" in written(out)


def test_json_is_one_event_a_line_that_reads_back() -> None:
    out = console()
    events = [
        *start(),
        progress(done=1, total=2),
        Note(host="small-1", change="c", text=HOSTILE + "\x7f模\udcff"),
    ]
    with JsonLines(out) as lines:
        for event in events:
            lines.tell(event)
    got = written(out)
    assert got.isascii()
    assert all(character == "\n" or character.isprintable() for character in got)
    assert [from_json(line, Event) for line in got.splitlines()[:4]] == events[:4]
    assert json.loads(got.splitlines()[4])["text"] == HOSTILE + "\x7f模\udcff"


def test_a_json_document_is_safe_on_a_terminal() -> None:
    assert json.loads(json_document({"b": "\x9b\x7f", "a": 1})) == {"b": "\x9b\x7f", "a": 1}
    assert json_document({"b": "\x9b\x7f"}).isascii()
    assert "\x7f" not in json_document({"b": "\x7f"})


def test_the_display_suits_the_stream() -> None:
    plan = sample_plan()
    assert isinstance(live(console(terminal=True), plan), LiveTable)
    assert isinstance(live(console(), plan), LiveLines)
    assert isinstance(live(console(terminal=True), plan, json=True), JsonLines)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_terminal_is_left_as_it_was_whatever_is_raised(error: type[BaseException]) -> None:
    out = console(terminal=True, colour=True)
    with pytest.raises(error), LiveTable(out, sample_plan()) as display:
        for event in start():
            display.tell(event)
        raise error
    shown = written(out)
    assert shown.rindex(SHOW_CURSOR) > shown.rindex(HIDE_CURSOR)


def test_the_table_shows_host_step_bytes_and_how_many_are_done() -> None:
    out, clock = console(terminal=True, width=130), Clock()
    with LiveTable(out, sample_plan(), clock=clock) as display:
        for event in start():
            display.tell(event)
        for second in range(5):
            clock.now = 100.0 + second
            display.tell(progress(done=second * 250_000_000, total=2_200_000_000))
        display.tell(Note(host="small-1", change="small-1/3", text="so far so good"))
    shown = written(out)
    assert "1/4 weights" in shown
    assert "1 of 2.2 GB · 45 % · 250 MB/s · 5 s left" in shown
    assert "0 of 2 hosts finished" in shown


@pytest.mark.parametrize("kind", [LiveLines, LiveTable])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk", "cp1251"])
def test_a_terminal_of_another_encoding_shows_what_it_can(
    encoding: str, kind: Callable[..., LiveLines | LiveTable]
) -> None:
    written_bytes = io.BytesIO()
    stream = io.TextIOWrapper(written_bytes, encoding=encoding)
    out = Console(stream=stream, terminal=True, colour=False, width=100)
    with kind(out, sample_plan()) as display:
        for event in [*start("fetches 模型" + "x" * 200), progress(done=1_000_000_000, total=2_200_000_000)]:
            display.tell(event)
        for status in ("done", "failed"):
            display.tell(
                ChangeFinished(host="small-1", change="c", subject="weights", status=status, seconds=1)
            )
    stream.flush()
    shown = CONTROL.sub("", written_bytes.getvalue().decode(encoding))
    assert "ok small-1" in shown or "ok weights" in shown
    assert "!! small-1" in shown or "!! weights" in shown


def test_a_table_in_another_encoding_is_no_wider_than_its_terminal() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    out = Console(stream=stream, terminal=True, colour=False, width=60)
    with LiveTable(out, sample_plan()) as display:
        for event in [*start(), progress(text="… · " * 40)]:
            display.tell(event)
    stream.seek(0)
    lines = CONTROL.sub("", stream.read()).splitlines()
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("width", [40, 70])
def test_a_narrow_table_still_names_host_and_bytes(width: int) -> None:
    out = console(terminal=True, width=width)
    with LiveTable(out, sample_plan()) as display:
        for event in [*start(), progress(done=500_000_000, total=2_200_000_000)]:
            display.tell(event)
    shown = written(out)
    assert "small-1" in shown
    assert "500" in shown


def test_without_colour_the_table_has_none() -> None:
    out = console(terminal=True, colour=False)
    with LiveTable(out, sample_plan()) as display:
        for event in start():
            display.tell(event)
        display.tell(ChangeFinished(host="small-1", change="c", subject="s", status="failed", seconds=1))
    assert "\x1b[31m" not in written(out)
    assert "\x1b[36m" not in written(out)


def test_plain_rendering_does_not_import_rich() -> None:
    code = (
        "import sys, cpudeploy.report.live, cpudeploy.report.plan_text, cpudeploy.report.outcome_text,"
        "cpudeploy.report.status_text, cpudeploy.report.facts_text; assert 'rich' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(root)})


def test_on_a_real_terminal_notes_stay_and_the_table_goes() -> None:
    master, slave = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        # A closed terminal reads as EIO on Linux.
        with contextlib.suppress(OSError):
            while chunk := os.read(master, 65536):
                seen.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with open(slave, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
        out = Console(stream=stream, terminal=True, colour=True, width=100)
        with LiveTable(out, sample_plan()) as display:
            for event in start():
                display.tell(event)
            display.tell(Note(host="small-1", change="small-1/3", text="so far so good"))
    reader.join()
    os.close(master)
    shown = b"".join(seen).decode()
    assert "so far so good\r\n" in shown
    assert SHOW_CURSOR in shown
    assert shown.endswith("\x1b[2K")
