from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cpudeploy.report.board import Board, HostBoard
from cpudeploy.report.numbers import time_left
from cpudeploy.types.event import ChangeFinished, ChangeStarted, HostFinished, OperationStarted, Progress

from .samples import change, host_plan, plan_of

MB = 1_000_000
GB = 1000 * MB


def board() -> Board:
    found = Board(plan_of(host_plan("h", change(id="c", subject="weights"), change(id="d"))))
    found.take(ChangeStarted(host="h", change="c", subject="weights"), 0)
    found.take(OperationStarted(host="h", change="c", operation="o", text="fetches"), 0)
    return found


def progress(found: Board, done: int, now: float, total: int = 10 * GB, text: str = "") -> HostBoard:
    found.take(Progress(host="h", change="c", operation="o", done=done, total=total, text=text), now)
    return found.hosts["h"]


def seconds(left: str) -> int:
    """`1 min 20 s left` in seconds."""
    found = re.fullmatch(r"(?:(\d+) min ?)?(?:(\d+) s )?left", left)
    assert found, left
    return int(found[1] or 0) * 60 + int(found[2] or 0)


def test_speed_and_time_left_come_from_the_last_seconds() -> None:
    found = board()
    progress(found, 0, 0)
    # A slow first minute, then one gigabyte a second: only the latter counts.
    for second in range(60, 66):
        host = progress(found, (second - 60) * GB, second)
    assert host.bytes_text(65) == "5 of 10 GB · 50 % · 1 GB/s · 5 s left"


def test_one_reading_tells_no_speed() -> None:
    assert progress(board(), GB, 1).bytes_text(1) == "1 of 10 GB · 10 %"


def test_the_first_moments_tell_no_time_left() -> None:
    found = board()
    for tenth in range(20):
        host = progress(found, tenth * 100 * MB, tenth / 10)
    assert host.bytes_text(1.9) == "1.9 of 10 GB · 19 % · 1 GB/s"


def test_a_download_without_a_known_size_shows_what_came() -> None:
    found = board()
    progress(found, GB, 1, total=0)
    assert progress(found, 2 * GB, 2, total=0).bytes_text(2) == "2 GB · 1 GB/s"


def test_a_download_that_stands_still_says_for_how_long_also_when_nothing_more_is_heard() -> None:
    found = board()
    for second in range(10):
        host = progress(found, second * 100 * MB, second)
    assert "stalled" not in host.bytes_text(12)
    assert host.bytes_text(29).endswith("· stalled for 20 s")
    progress(found, 900 * MB, 40)  # a sign of life that brings nothing
    assert host.bytes_text(49).endswith("· stalled for 40 s")
    progress(found, 950 * MB, 50)
    assert "stalled" not in host.bytes_text(50)


def test_a_download_that_is_whole_is_not_stalled() -> None:
    found = board()
    progress(found, 0, 0)
    assert progress(found, 10 * GB, 5).bytes_text(60) == "10 of 10 GB · 100 %"


def test_who_says_what_is_done_instead_of_downloading_is_not_stalled() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    host = progress(found, 5 * GB, 2, text="unpacking layer 2 of 5")
    assert "stalled" not in host.bytes_text(60)
    assert host.last_line == "unpacking layer 2 of 5"
    assert progress(found, 6 * GB, 61).last_line == ""


def test_time_left_does_not_jump_although_bytes_come_in_bursts() -> None:
    """Two seconds of nothing and then all of it at once, again and again."""
    found, shown = board(), []
    for second in range(60):
        host = progress(found, second // 3 * 300 * MB, second)
        if second >= 15:
            shown.append(host.bytes_text(second))
    left = [seconds(text.rpartition("· ")[2]) for text in shown]
    assert all(abs(after - before) <= 20 for before, after in pairwise(left)), left


def test_a_new_attempt_never_shows_a_negative_speed() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    assert progress(found, 0, 2).bytes_text(2) == "0 B of 10 GB · 0 %"


def test_a_new_operation_starts_with_nothing_of_the_last() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    found.take(OperationStarted(host="h", change="c", operation="p", text="starts"), 2)
    host = found.hosts["h"]
    assert (host.bytes_text(2), host.last_line, host.operation) == ("", "", "starts")


def test_a_line_of_log_leaves_the_bytes_alone() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    found.take(Progress(host="h", change="c", operation="o", text="loading"), 2)
    assert found.hosts["h"].last_line == "loading"
    assert found.hosts["h"].bytes_text(2).startswith("5 of 10 GB")


def test_how_long_it_may_take_is_told_where_one_waits() -> None:
    found = board()
    found.take(OperationStarted(host="h", change="c", operation="p", text="wait", at_most_s=300), 10)
    assert found.hosts["h"].waited(50) == "40 s of at most 5 min"
    found.take(OperationStarted(host="h", change="c", operation="q", text="create"), 60)
    assert found.hosts["h"].waited(70) == "10 s"


def test_a_host_is_active_only_while_something_is_done_to_it() -> None:
    found = board()
    assert found.hosts["h"].active
    found.take(ChangeFinished(host="h", change="c", subject="weights", status="done", seconds=1), 3)
    assert not found.hosts["h"].active
    found.take(OperationStarted(host="h", change="d", operation="o", text="x"), 4)
    found.take(HostFinished(host="h", status="done", seconds=5), 5)
    assert not found.hosts["h"].active


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.2, "1 s"),
        (6.4, "7 s"),
        (41, "45 s"),
        (59, "1 min"),
        (192, "3 min 20 s"),
        (700, "12 min"),
        (7000, "2 h"),
        (7300, "2 h 5 min"),
    ],
)
def test_time_left_is_as_coarse_as_one_can_know_it(seconds: float, told: str) -> None:
    assert time_left(seconds) == told


def test_an_undo_that_comes_before_its_change_is_told_by_what_it_is_about() -> None:
    found = Board(plan_of(host_plan("h", change(id="container:rag_smol_0", subject="smol"))))
    operation = OperationStarted(host="h", change="container:rag_smol_0", operation="o", text="revert: start")
    found.take(operation, 0)
    assert found.hosts["h"].subject == "smol"
