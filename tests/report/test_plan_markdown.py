import re

from cpudeploy.report.plan_markdown import render_plan_markdown

from .samples import HOSTILE, change, host_plan, plan_of, sample_plan


def test_a_comment_has_totals_a_table_a_host_and_the_whole_plan_folded() -> None:
    rendered = render_plan_markdown(sample_plan())
    assert "**1 model to start, 1 to change, 3 preparations · 0 foreign containers restart**" in rendered
    assert "#### small-1" in rendered
    assert "| `+` | minicpm5-1b | llama on 127.0.0.1:8080 |" in rendered
    assert "| `~` | qwen3 | context 8192 → 16384 · command differs ·" in rendered
    assert rendered.count("<details>") == rendered.count("</details>") == 2


def test_rows_of_a_table_have_three_cells_whatever_they_hold() -> None:
    nasty = change(subject="a|b", summary="x | y\n| evil | row |")
    rendered = render_plan_markdown(plan_of(host_plan("h", nasty)))
    rows = [line for line in rendered.splitlines() if line.startswith("| `+`")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 4


def test_text_of_hosts_is_neither_markup_nor_html_nor_mention() -> None:
    nasty = "<img src=x> [click](http://evil) @everyone `code` www.evil.com #1 !2 " + HOSTILE
    rendered = render_plan_markdown(plan_of(host_plan("h", headline="- " + nasty, warnings=(nasty,))))
    assert not re.search(r"(?<!\\)<img|(?<!\\)\[click|@everyone|://|www\.|(?<!\\)`code|(?<!\\)#1", rendered)
    assert "\n\\- " in rendered
    assert "\x1b" not in rendered


def test_a_fence_can_not_be_closed_from_within() -> None:
    rendered = render_plan_markdown(plan_of(host_plan("h", change(summary="a ````` b"))))
    assert "\n``````text\n" in rendered
    assert "\n``````\n" in rendered


def test_what_is_too_long_for_a_comment_is_left_out_and_said() -> None:
    plan = plan_of(*(host_plan(f"h{i}", *(change() for _ in range(20))) for i in range(200)))
    rendered = render_plan_markdown(plan)
    assert len(rendered) < 65_536
    assert "more hosts are too many for a comment" in rendered
    assert "Details are too long for a comment" in rendered


def test_hosts_that_did_not_answer_are_told() -> None:
    rendered = render_plan_markdown(plan_of(host_plan("h", unreachable="timed out")))
    assert "unreachable: timed out" in rendered
    assert "1 host unreachable" in rendered
