import re

import msgspec
import pytest

from cpudeploy.report.plan_changes import summary_of
from cpudeploy.report.plan_text import render_plan
from cpudeploy.report.text import cells
from cpudeploy.types.plan import FieldDiff, Plan

from .samples import (
    COMMAND,
    HOSTILE,
    allocation,
    change,
    fetch,
    host_plan,
    plan_of,
    pull,
    sample_plan,
)

GOLDEN = """\
rag · 2 hosts · facts in 0.4 s

small-1   Debian 12 · 2 cores, 4 threads · 13.4 of 15.6 GiB free · AVX2
  + docker       docker.io 20.10 from the distribution
  + image        ghcr.io/ggml-org/llama.cpp:server-b9000   from m.daocloud.io · 86 MB to pull · sha256:ab12cd…
                 · revert: none
  + weights      MiniCPM5-1B-F16.gguf   2.2 GB · sha256:9f0c…
  + minicpm5-1b  llama on 127.0.0.1:8080
      cpus     0-3                 both cores; 2 threads, 4 for prompt batches
      context  8192 × 4 requests
      memory   3.5 GiB             2.0 weights + 0.75 KV + 0.29 compute + 0.39 engine; 13.4 free

genoa-1   Ubuntu 24.04 · 16 cores, 32 threads · AVX-512
  ! clock is 90 s behind
  ~ qwen3  stop first (both need 41 of 36 GiB free) · the manifest asks for it · about 20 s without service
      context  8192 → 16384   inventory.yaml:12; now 16384 × 4 requests
      command  differs        (-v shows it)
  unchanged  docker, image, weights

revert: none: should a later step fail, this stays as it is then
1 model to start, 1 to change, 3 preparations · 0 foreign containers restart"""


def text(plan: Plan, *, width: int = 110, verbose: bool = False, colour: bool = False) -> str:
    return render_plan(plan, colour=colour, width=width, verbose=verbose)


def words(rendered: str) -> str:
    return " ".join(rendered.split())


def test_a_plan_reads_like_this() -> None:
    assert render_plan(sample_plan(), colour=False, width=110, verbose=False, facts_s=0.4) == GOLDEN


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_every_line_fits_but_for_words_that_must_stay_whole(width: int) -> None:
    for line in text(sample_plan(), width=width, verbose=True).splitlines():
        assert cells(line) <= width or max(map(len, line.split())) > width - 24, line


@pytest.mark.parametrize("width", [40, 110, 200])
def test_width_never_changes_what_is_said(width: int) -> None:
    def said(width: int) -> list[str]:
        # A long difference is an arrow where there is room, two signed lines where there is none.
        return sorted(set(text(sample_plan(), width=width, verbose=True).split()) - {"→", "+", "-"})

    assert said(width) == said(400)


def test_plain_text_has_no_control_codes_and_colour_adds_nothing_else() -> None:
    plain, painted = text(sample_plan()), text(sample_plan(), colour=True)
    assert "\x1b" not in plain
    assert "\x1b" in painted
    assert re.sub(r"\x1b\[\d+m", "", painted) == plain


def test_subjects_of_a_host_stand_in_one_column() -> None:
    lines = [line for line in text(sample_plan()).splitlines() if line.startswith("  + ")]
    starts = {re.match(r"  \+ \S+ +", line).end() for line in lines}  # type: ignore[union-attr]
    assert len(starts) == 1


def test_nothing_to_do_says_so() -> None:
    rendered = text(plan_of(host_plan("small-1", retained=("docker", "qwen3"))))
    assert rendered.splitlines()[-1] == "no changes"
    assert "unchanged  docker, qwen3" in rendered


def test_hosts_that_did_not_answer_are_told_and_counted() -> None:
    plan = plan_of(
        host_plan("a", headline="", unreachable="connect to 10.0.0.1:22 timed out"),
        host_plan("b", headline="", unknown="nothing recorded for this host"),
    )
    rendered = text(plan)
    assert "a   unreachable: connect to 10.0.0.1:22 timed out" in rendered
    assert "not planned: nothing recorded for this host" in rendered
    assert rendered.splitlines()[-1] == "1 host unreachable · 1 host not planned"


def test_a_long_difference_keeps_its_differing_part_in_view() -> None:
    before, after = "/models/" + "x" * 300 + "/old", "/models/" + "x" * 300 + "/new"
    diff = FieldDiff(field="source", before=before, after=after, why="inventory.yaml:3")
    rendered = text(plan_of(host_plan("a", change(action="update", diff=(diff,)))), width=80)
    assert "/old" in rendered
    assert "/new" in rendered
    assert before not in rendered


def test_verbose_shows_long_differences_in_full() -> None:
    rendered = text(sample_plan(), verbose=True, width=100)
    assert COMMAND in words(rendered)
    assert COMMAND.replace("32768", "65536") in words(rendered)


def test_a_difference_of_files_is_shown_line_by_line() -> None:
    diff = FieldDiff(field="text", before='{\n  "a": 1\n}\n', after='{\n  "a": 2\n}\n')
    rendered = text(plan_of(host_plan("a", change(action="update", diff=(diff,)))), verbose=True)
    assert '        -   "a": 1' in rendered.splitlines()
    assert '        +   "a": 2' in rendered.splitlines()


def test_a_change_of_the_command_line_alone_is_not_an_empty_difference() -> None:
    diff = FieldDiff(field="command", before="-c 1", after="-c 2", why="playbook llama-cpp")
    rendered = text(plan_of(host_plan("a", change(action="update", diff=(diff,)))))
    assert "command  differs   playbook llama-cpp (-v shows it)" in rendered


def test_what_was_not_set_is_told_apart_from_an_empty_value() -> None:
    diffs = (
        FieldDiff(field="api_key", before=None, after="set"),
        FieldDiff(field="cpus", before="0-3", after=None),
    )
    rendered = text(plan_of(host_plan("a", change(action="update", diff=diffs))))
    assert "(not set) → set" in rendered
    assert "0-3 → (not set)" in rendered


def test_a_gate_has_its_own_sign_and_a_legend() -> None:
    gate = change(
        step="container", action="gate", subject="qwen3", why="never proven", summary="", revert=None
    )
    rendered = text(plan_of(host_plan("a", gate)))
    assert "  ? qwen3  never proven" in rendered.splitlines()
    assert "? starts it" in rendered
    assert "revert: none" not in rendered
    assert "1 model to prove" in rendered


def test_signs_without_use_have_no_legend() -> None:
    assert "? starts it" not in text(sample_plan())


def test_foreign_containers_that_restart_are_told_at_the_change_and_in_the_total() -> None:
    rendered = text(
        plan_of(
            host_plan("a", change(restarts=1, restarts_foreign=1)),
            host_plan("b", change(restarts=3, restarts_foreign=2)),
        )
    )
    assert "restarts 1 container, 1 of them foreign\n" in rendered
    assert rendered.endswith("2 preparations · 3 foreign containers restart")


def test_several_instances_are_told_apart() -> None:
    two = (allocation(model="qwen3", cpuset="0-7"), allocation(model="qwen3", instance=1, cpuset="8-15"))
    rendered = text(plan_of(host_plan("a", change(step="container", subject="qwen3"), allocations=two)))
    assert rendered.index("instance 0") < rendered.index("0-7") < rendered.index("instance 1")
    assert rendered.index("instance 1") < rendered.index("8-15")


def test_a_change_of_one_instance_shows_that_instance_alone() -> None:
    two = (
        allocation(model="qwen3", cpuset="0-7", kept=True),
        allocation(model="qwen3", instance=1, cpuset="8-15"),
    )
    rendered = text(plan_of(host_plan("a", change(step="container", subject="qwen3_1"), allocations=two)))
    assert "8-15" in rendered
    assert "0-7" not in rendered


def test_every_fresh_allocation_is_told_even_where_no_change_names_it() -> None:
    assert "0-3" in text(plan_of(host_plan("a", allocations=(allocation(),))))


def test_verbose_loses_nothing() -> None:
    kept = allocation(model="other", cpuset="9", kept=True, reasons={"cpus": "kept", "novel": "a new reason"})
    done = change(why="because", operations=(pull(), fetch()), revert=(fetch(),), summary="in short")
    plan = plan_of(
        host_plan("a", done, allocations=(kept,), warnings=("careful",)), warnings=("all careful",)
    )
    rendered = words(text(plan, verbose=True))
    for told in (
        "because",
        "engine pull",
        "undo fetch",
        "cpus 9",
        "a new reason",
        "careful",
        "all careful",
        plan.id,
    ):
        assert told in rendered


def test_destroy_is_told_and_counted() -> None:
    changes = (
        change(step="container", action="remove", phase="replace", subject="qwen3", summary="container"),
        change(step="record", action="remove", phase="replace", subject="releases", summary="3"),
    )
    rendered = text(plan_of(host_plan("a", *changes), destroy=True))
    assert rendered.startswith("rag · destroy · 1 host")
    assert "1 model to remove, 1 other thing to remove" in rendered


def test_what_goes_is_called_other_only_beside_models() -> None:
    images = change(step="record", action="remove", phase="replace", subject="releases", summary="3")
    assert "\n1 thing to remove" in text(plan_of(host_plan("a", images)))


def test_text_of_hosts_is_shown_escaped_wherever_it_stands() -> None:
    diff = FieldDiff(field=HOSTILE, before=HOSTILE, after=HOSTILE + "x", why=HOSTILE)
    bad = change(subject=HOSTILE, summary=HOSTILE, why=HOSTILE + "y", action="update", diff=(diff,))
    alloc = allocation(model=HOSTILE, reasons={"cpus": HOSTILE, HOSTILE: HOSTILE})
    host = host_plan(
        "a",
        bad,
        headline=HOSTILE,
        warnings=(HOSTILE,),
        retained=(HOSTILE,),
        allocations=(alloc,),
        unknown=HOSTILE,
    )
    plan = plan_of(host, warnings=(HOSTILE,), origin=HOSTILE)
    for verbose in (False, True):
        rendered = text(plan, verbose=verbose)
        assert not set(rendered) & set("\x1b\x07\x9b\u202e\r")
        assert "[bold red]x[/]" in rendered


def test_a_gap_below_two_seconds_is_told_as_that() -> None:
    host = sample_plan().hosts["genoa-1"]
    (change,) = host.changes
    assert summary_of(msgspec.structs.replace(change, gap_s=1)).endswith("under 2 s without service")
    assert "without service" not in summary_of(msgspec.structs.replace(change, gap_s=None))
