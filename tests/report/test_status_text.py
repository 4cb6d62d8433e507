from cpudeploy.report.status_text import render_status, status_data
from cpudeploy.report.text import cells
from cpudeploy.types.status import StatusRow

from .samples import GIB, HOSTILE

SERVING = StatusRow(
    host="genoa-1",
    model="qwen3",
    state="serving",
    since="2026-01-05T10:00:00Z",
    age_s=4000,
    endpoint="http://127.0.0.1:8100/v1",
    release="0007-1a2b3c4d",
    memory=int(3.5 * GIB),
    cpus="0-3",
)
STOPPED = StatusRow(host="small-1", model="minicpm5-1b", state="stopped", exit_code=137, oom=True, restarts=3)
GONE = StatusRow(host="xeon-02", state="unreachable", detail="connect timed out")
ROWS = (SERVING, STOPPED, GONE)


def text(*rows: StatusRow, width: int = 200, colour: bool = False) -> str:
    return render_status(rows, colour=colour, width=width)


def test_a_row_says_where_what_and_how() -> None:
    header, serving, stopped, gone = text(*ROWS).splitlines()
    assert " ".join(header.split()) == "host model state since restarts endpoint release memory cpus detail"
    assert serving.split() == [
        "genoa-1", "qwen3", "serving", "1", "h", "6", "min", "0", "http://127.0.0.1:8100/v1", "0007-1a2b3c4d",
        "3.5", "GiB", "0-3",
    ]  # fmt: skip
    assert "stopped, exit 137 (SIGKILL), out of memory" in stopped
    assert gone.split() == ["xeon-02", "–", "unreachable", "connect", "timed", "out"]


def test_columns_are_aligned() -> None:
    header, *rows = text(*ROWS).splitlines()
    column = header.index("state")
    assert [row[column : column + 7] for row in rows] == ["serving", "stopped", "unreach"]


def test_instances_have_a_column_only_where_a_model_has_several() -> None:
    second = StatusRow(host="genoa-1", model="qwen3", instance=1, state="missing")
    assert "instance" in text(SERVING, second).splitlines()[0]
    assert "instance" not in text(SERVING).splitlines()[0]


def test_a_narrow_terminal_gets_a_block_a_row_and_every_value() -> None:
    rendered = text(*ROWS, width=60)
    assert all(cells(line) <= 60 for line in rendered.splitlines())
    assert rendered.startswith("genoa-1 qwen3\n  state     serving\n")
    assert "http://127.0.0.1:8100/v1" in rendered
    assert "connect timed out" in rendered


def test_colour_does_not_move_columns() -> None:
    plain, painted = text(*ROWS), text(*ROWS, colour=True)
    for style in ("1", "2", "31", "32", "0"):
        painted = painted.replace(f"\x1b[{style}m", "")
    assert painted == plain


def test_nothing_deployed_says_so() -> None:
    assert text() == "nothing is deployed"


def test_hostile_text_is_harmless() -> None:
    rows = (StatusRow(host=HOSTILE, model=HOSTILE, state="drifted", detail=HOSTILE),)
    for width in (40, 400):
        assert not set(text(*rows, width=width)) & set("\x1b\x07\x9b\u202e\r")


def test_the_data_form_has_every_field() -> None:
    data = status_data("rag", ROWS)
    assert data["schema"] == "cpudeploy.status/1"
    assert data["deployment"] == "rag"
    assert data["instances"][0]["since"] == "2026-01-05T10:00:00Z"
    assert data["instances"][1]["oom"] is True
