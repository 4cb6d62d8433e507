from cpudeploy.report.board import Board, HostBoard
from cpudeploy.types.event import ChangeFinished, ChangeStarted, HostFinished, OperationStarted, Progress

GB = 1_000_000_000


def board() -> Board:
    found = Board({"h": 2})
    found.take(ChangeStarted(host="h", change="c", subject="weights"), 0)
    found.take(OperationStarted(host="h", change="c", operation="o", text="fetches"), 0)
    return found


def progress(found: Board, done: int, now: float, total: int = 10 * GB) -> HostBoard:
    return found.take(Progress(host="h", change="c", operation="o", done=done, total=total), now)


def test_speed_and_time_left_come_from_the_last_seconds() -> None:
    found = board()
    progress(found, 0, 0)
    # A slow first minute, then one gigabyte a second: only the latter counts.
    for second in range(60, 66):
        host = progress(found, (second - 60) * GB, second)
    assert host.bytes_text == "5 of 10 GB · 50 % · 1 GB/s · 5 s left"


def test_one_reading_tells_no_speed() -> None:
    assert progress(board(), GB, 1).bytes_text == "1 of 10 GB · 10 %"


def test_a_download_without_a_known_size_shows_what_came() -> None:
    found = board()
    progress(found, GB, 1, total=0)
    assert progress(found, 2 * GB, 2, total=0).bytes_text == "2 GB · 1 GB/s"


def test_a_download_that_stands_still_says_stalled() -> None:
    found = board()
    progress(found, GB, 1)
    assert progress(found, GB, 5).bytes_text.endswith("stalled")


def test_a_new_attempt_never_shows_a_negative_speed() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    assert progress(found, 0, 2).bytes_text == "0 B of 10 GB · 0 %"


def test_a_new_operation_starts_with_nothing_of_the_last() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    host = found.take(OperationStarted(host="h", change="c", operation="p", text="starts"), 2)
    assert (host.bytes_text, host.last_line, host.operation) == ("", "", "starts")


def test_a_line_of_log_leaves_the_bytes_alone() -> None:
    found = board()
    progress(found, 5 * GB, 1)
    host = found.take(Progress(host="h", change="c", operation="o", text="loading"), 2)
    assert host.last_line == "loading"
    assert host.bytes_text.startswith("5 of 10 GB")


def test_a_host_is_active_only_while_something_is_done_to_it() -> None:
    found = board()
    assert found.hosts["h"].active
    found.take(ChangeFinished(host="h", change="c", subject="weights", status="done", seconds=1), 3)
    assert not found.hosts["h"].active
    found.take(OperationStarted(host="h", change="d", operation="o", text="x"), 4)
    found.take(HostFinished(host="h", status="done", seconds=5), 5)
    assert not found.hosts["h"].active
