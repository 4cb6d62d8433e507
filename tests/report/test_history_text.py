"""The past of a host as it is shown: every release, what it changed, what came of it."""

from __future__ import annotations

from typing import Any

from cpudeploy.report.history_text import history_data, render_history
from cpudeploy.report.text import cells
from cpudeploy.types.history import HistoryInstance, HistoryRelease, HostHistory
from cpudeploy.types.plan import FieldDiff

from .samples import HOSTILE

CONTEXT = FieldDiff(field="context", before="2048", after="4096")
COMMAND = FieldDiff(field="container.command", before="--ctx-size 2048", after="--ctx-size 4096")


def instance(**changes: Any) -> HistoryInstance:
    base: dict[str, Any] = {
        "model": "qwen3",
        "container": "rag_qwen3_0",
        "change": "same",
        "became": "proven",
    }
    return HistoryInstance(**{**base, **changes})


def release(id: str, *instances: HistoryInstance, **changes: Any) -> HistoryRelease:
    base: dict[str, Any] = {"age_s": 7200, "by": "ops@laptop", "origin": "git@forge:rag.git inventory.yaml"}
    return HistoryRelease(host="genoa-1", release=id, instances=instances, **{**base, **changes})


def text(*hosts: HostHistory, width: int = 120, verbose: bool = False) -> str:
    return render_history("rag", hosts, colour=False, width=width, verbose=verbose)


def one(*releases: HistoryRelease, **options: Any) -> list[str]:
    return text(HostHistory(host="genoa-1", releases=releases), **options).splitlines()


def test_a_release_says_when_by_whom_what_changed_and_what_came_of_it() -> None:
    changed = instance(change="changed", diff=(CONTEXT, COMMAND), became="serving")
    lines = one(
        release("0002-bbbbbbbb", changed, current=True), release("0001-aaaaaaaa", instance(change="new"))
    )
    assert lines == [
        "genoa-1   rag · 2 releases",
        "  0002-bbbbbbbb   2 h ago · by ops@laptop · serves now",
        "      ~ qwen3  context 2048 → 4096 · serving",
        "  0001-aaaaaaaa   2 h ago · by ops@laptop",
        "      from git@forge:rag.git inventory.yaml",
        "      + qwen3  proven",
    ]


def test_what_only_follows_is_shown_on_request_and_never_hidden() -> None:
    changed = instance(change="changed", diff=(COMMAND,))
    assert "its settings (-v shows them)" in "\n".join(one(release("0001-a", changed)))
    assert "--ctx-size 2048 → --ctx-size 4096" in "\n".join(one(release("0001-a", changed), verbose=True))


def test_a_failure_says_why_and_what_is_gone_is_named() -> None:
    failed = instance(became="failed", why="rag_qwen3_0 ended with exit code 1; no such flag")
    told = "\n".join(one(release("0001-a", failed, missing=("image x (sha256:dddd…)",))))
    assert "failed: rag_qwen3_0 ended with exit code 1; no such flag" in told
    assert "no way back to it: image x (sha256:dddd…) is not here any more" in told


def test_the_origin_is_shown_where_it_changes() -> None:
    lines = one(
        release("0003-c", origin="there"), release("0002-b", origin="here"), release("0001-a", origin="here")
    )
    assert [line.strip() for line in lines if "from" in line] == ["from there", "from here"]


def test_hosts_without_any_say_why() -> None:
    told = text(
        HostHistory(host="a"),
        HostHistory(host="b", unreachable="no route"),
        HostHistory(host="c", unknown="no root"),
        HostHistory(host="d", releases=(HistoryRelease(host="d", release="0001-a", unreadable="not JSON"),)),
    )
    for part in ("nothing of rag", "unreachable: no route", "unknown: no root", "can't be read: not JSON"):
        assert part in told


def test_nothing_a_host_says_acts_on_the_terminal_or_runs_over() -> None:
    bad = release(
        HOSTILE, instance(model=HOSTILE, why=HOSTILE, became="failed"), by=HOSTILE, missing=(HOSTILE,)
    )
    told = text(HostHistory(host="a", releases=(bad,)), width=100)
    assert "\x1b" not in told and "\u202e" not in told
    assert all(cells(line) <= 100 for line in told.splitlines())


def test_as_data_it_has_all_of_it() -> None:
    host = HostHistory(host="genoa-1", releases=(release("0001-a", instance(diff=(COMMAND,))),))
    data = history_data("rag", [host])
    assert data["schema"] == "cpudeploy.history/1"
    assert data["hosts"][0]["releases"][0]["instances"][0]["diff"][0]["field"] == "container.command"
