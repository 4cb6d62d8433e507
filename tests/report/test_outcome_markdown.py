import re

from cpudeploy.report.outcome_markdown import render_outcome_markdown
from cpudeploy.types.outcome import ChangeOutcome, HostOutcome

from .samples import HOSTILE, failure, plan_of, sample_outcome, sample_plan

PLAN = sample_plan()


def changed(status: str, **fields: object) -> HostOutcome:
    change = ChangeOutcome(change="genoa-1/1", subject="qwen3", status="skipped", seconds=0)
    return HostOutcome(host="genoa-1", status=status, changes=(change,), **fields)  # type: ignore[arg-type]


def test_a_comment_says_how_it_ended_then_each_host_what_failed_and_what_answers() -> None:
    rendered = render_outcome_markdown(sample_outcome(), PLAN)
    assert rendered.startswith(
        "### rag · not all done\n\n**rag · 1 done, 1 reverted · 51 s · cpudeploy exits 7"
    )
    assert "| ✅ | small-1 | done" in rendered
    assert "| ❌ | genoa-1 | reverted" in rendered
    assert "#### ❌ genoa-1 qwen3" in rendered
    assert "stopped with SIGILL 3 s after start · the old version serves again" in rendered
    assert "- **do** use vllm/vllm-openai-cpu" in rendered
    assert "<summary>the last 2 lines of its log</summary>" in rendered
    assert "| minicpm5-1b | small-1 | `http://127.0.0.1:8080/v1` |" in rendered
    assert "<summary>the plan that was carried out</summary>" in rendered
    assert "1 model to start, 1 to change" in rendered
    assert rendered.count("<details>") == rendered.count("</details>") == 2


def test_what_went_well_is_short() -> None:
    hosts = {"small-1": sample_outcome().hosts["small-1"]}
    rendered = render_outcome_markdown(sample_outcome(hosts), PLAN)
    assert rendered.startswith("### rag · applied\n")
    assert "exits" not in rendered
    assert "❌" not in rendered


def test_a_plan_that_is_used_up_or_stale_says_so() -> None:
    used = changed("used", error="this plan was carried out here already")
    rendered = render_outcome_markdown(sample_outcome({"genoa-1": used}), PLAN)
    assert "this plan was carried out here already" in rendered
    assert "cpudeploy exits 6" in rendered
    stale = changed("stale", error="container rag_qwen3_0 is gone (plan again)")
    assert "container rag\\_qwen3\\_0 is gone" in render_outcome_markdown(
        sample_outcome({"genoa-1": stale}), PLAN
    )


def test_an_interrupted_one_says_what_is_left_and_how_to_go_on() -> None:
    rendered = render_outcome_markdown(sample_outcome({"genoa-1": changed("interrupted")}), PLAN)
    assert "> ⚠ genoa-1: left: qwen3" in rendered
    assert "cpudeploy apply again" in rendered


def test_what_hosts_and_models_say_does_not_act() -> None:
    nasty = "<img src=x> [click](http://evil) @everyone ````` " + HOSTILE
    told = ChangeOutcome(
        change="c",
        subject="a|b",
        status="failed",
        seconds=1,
        failure=failure(what=nasty, cause=nasty, do=nasty, log=(nasty,)),
    )
    hosts = {"h": HostOutcome(host="h", status="failed", changes=(told,), error=nasty)}
    rendered = render_outcome_markdown(sample_outcome(hosts), plan_of())
    assert "\x1b" not in rendered
    outside = re.sub(r"\n(`{3,})text\n.*?\n\1\n", "", rendered, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<img|(?<!\\)\[click|@everyone|://evil", outside)
    assert "\n``````text\n" in rendered
    rows = [line for line in rendered.splitlines() if line.startswith("| | a")]
    assert rows and all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_what_is_too_long_for_a_comment_is_left_out_and_said() -> None:
    told = tuple(
        ChangeOutcome(
            change=f"c{i}",
            subject=f"m{i}",
            status="failed",
            seconds=1,
            failure=failure(log=("x" * 500,) * 15),
        )
        for i in range(40)
    )
    hosts = {"h": HostOutcome(host="h", status="failed", changes=told)}
    rendered = render_outcome_markdown(sample_outcome(hosts), plan_of())
    assert len(rendered) < 65_536
    assert "too long for a comment" in rendered
