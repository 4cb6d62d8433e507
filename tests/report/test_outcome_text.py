import json

import msgspec
import pytest

from cpudeploy.report.endpoints import base_url, endpoints
from cpudeploy.report.json_text import json_document
from cpudeploy.report.outcome_text import EXIT_MEANINGS, exit_code, exit_reason, outcome_data, render_outcome
from cpudeploy.types.outcome import EXIT_CODES, ChangeOutcome, HostOutcome, Outcome
from cpudeploy.types.plan import Plan

from .samples import (
    HOSTILE,
    allocation,
    change,
    failure,
    host_plan,
    instance,
    plan_of,
    record,
    sample_outcome,
    sample_plan,
    wait,
)

GOLDEN = """\
✓ small-1   done · 48 s
✗ genoa-1   reverted · 40 s

✗ genoa-1 qwen3   stopped with SIGILL 3 s after start · the old version serves again · cpudeploy exits 7
  cause  this image needs AVX-512; the CPU has AVX2 only
  do     use vllm/vllm-openai-cpu:v0.17.0 or newer, or backend llama
  state  exit code 132 (SIGILL) · 2 restarts
  log    2 lines:
         INFO loading
         Illegal instruction (core dumped)

minicpm5-1b on small-1: http://127.0.0.1:8080/v1

rag · 1 done, 1 reverted · 51 s · cpudeploy exits 7: failed and rolled back"""


def text(
    outcome: Outcome,
    plan: Plan | None = None,
    *,
    width: int = 110,
    colour: bool = False,
    command: str = "apply",
) -> str:
    return render_outcome(outcome, plan or sample_plan(), colour=colour, width=width, command=command)


def of_host(status: str, *changes: ChangeOutcome, error: str = "") -> HostOutcome:
    return HostOutcome(host="genoa-1", status=status, changes=changes, error=error, seconds=3)  # type: ignore[arg-type]


def done(*ids: str, status: str = "done") -> tuple[ChangeOutcome, ...]:
    return tuple(ChangeOutcome(change=i, subject=i, status=status, seconds=1) for i in ids)  # type: ignore[arg-type]


def test_an_interrupted_one_says_what_is_left_and_how_to_go_on() -> None:
    hosts = {"genoa-1": of_host("interrupted", *done("a"), *done("b", "c", status="skipped"))}
    shown = text(sample_outcome(hosts))
    assert "! genoa-1   left: b, c" in shown
    assert "cpudeploy apply again: it goes on with what is left" in shown
    saved = msgspec.structs.replace(sample_plan(), saved="2026-11-30T12:00:00.000001Z")
    assert "apply the same file again" in text(sample_outcome(hosts), saved)


@pytest.mark.parametrize("command", ["destroy", "prune", "rollback"])
def test_who_was_interrupted_goes_on_with_the_same_command(command: str) -> None:
    hosts = {"genoa-1": of_host("interrupted", *done("a"), *done("b", status="skipped"))}
    shown = text(sample_outcome(hosts), command=command)
    assert f"cpudeploy {command} again" in shown
    assert "cpudeploy apply" not in shown


def test_a_plan_that_is_used_up_everywhere_exits_6_and_somewhere_0() -> None:
    used = of_host("used", *done("a", status="skipped"), error="this plan was carried out here already")
    assert exit_code(sample_outcome({"genoa-1": used})) == 6
    assert "= genoa-1   used · 3 s: this plan was carried out here already" in text(
        sample_outcome({"genoa-1": used})
    )
    assert exit_code(sample_outcome({"genoa-1": used, "b": of_host("done", *done("b"))})) == 0
    assert exit_code(sample_outcome({"genoa-1": used, "b": of_host("unchanged")})) == 6


def test_an_outcome_reads_like_this() -> None:
    assert text(sample_outcome()) == GOLDEN


def test_what_belongs_to_no_host_is_said_too() -> None:
    outcome = msgspec.structs.replace(sample_outcome(), warnings=("progress was not shown whole",))
    assert "\n! progress was not shown whole\n" in text(outcome)
    assert outcome_data(outcome, sample_plan())["warnings"] == outcome.warnings


def test_a_good_end_says_where_models_answer_and_no_exit_code() -> None:
    small = sample_outcome().hosts["small-1"]
    rendered = text(sample_outcome({"small-1": small}))
    assert "minicpm5-1b on small-1: http://127.0.0.1:8080/v1" in rendered
    assert "cpudeploy exits" not in rendered
    assert rendered.splitlines()[-1] == "rag · 1 host done · 51 s"


def test_hosts_that_never_got_to_a_change_say_why() -> None:
    rendered = text(sample_outcome({"genoa-1": of_host("unreachable", error="connect timed out")}))
    assert "✗ genoa-1   unreachable · 3 s: connect timed out" in rendered
    assert "cpudeploy exits 4: some hosts could not be reached" in rendered


def test_every_status_has_an_exit_code_with_a_meaning() -> None:
    assert set(EXIT_CODES.values()) <= set(EXIT_MEANINGS)


def test_the_exit_code_of_several_hosts_is_the_worst() -> None:
    outcome = sample_outcome({"a": of_host("reverted"), "b": of_host("failed"), "c": of_host("done")})
    assert exit_code(outcome) == 3
    assert exit_code(sample_outcome({"a": of_host("done")})) == 0


def test_an_out_of_memory_kill_is_told() -> None:
    killed = failure(exit_code=137, oom=True, restarts=0, cause="", do="", log=(), serving="")
    failed = ChangeOutcome(change="genoa-1/1", subject="qwen3", status="failed", seconds=1, failure=killed)
    rendered = text(sample_outcome({"genoa-1": of_host("failed", failed)}))
    assert "state  exit code 137 (SIGKILL) · killed for memory (OOM)\n" in rendered
    for absent in ("cause", "do  ", "log"):
        assert f"\n  {absent}" not in rendered


def test_exit_codes_that_tell_of_a_signal_name_it() -> None:
    assert [exit_reason(code) for code in (0, 1, 132, 137, 139, 255)] == [
        "", "", " (SIGILL)", " (SIGKILL)", " (SIGSEGV)", "",
    ]  # fmt: skip


def test_log_lines_are_whole_and_harmless() -> None:
    long = "tensor " * 60
    failed = ChangeOutcome(
        change="c", subject=HOSTILE, status="failed", seconds=1, failure=failure(log=(long, HOSTILE, "a\nb"))
    )
    for colour in (False, True):
        rendered = text(sample_outcome({"genoa-1": of_host("failed", failed)}), width=60, colour=colour)
        assert long.rstrip() in rendered
        assert "\x1b[2J" not in rendered
        assert not set(rendered) & set("\x07\x9b\u202e\r")
        assert "log    4 lines:" in rendered or colour


def test_models_that_failed_are_not_offered() -> None:
    assert [e.model for e in endpoints(sample_outcome(), sample_plan())] == ["minicpm5-1b"]


def two_models() -> Plan:
    both = {"rag_a_0": instance("a", port=8100), "rag_b_0": instance("b", port=8101)}
    return plan_of(
        host_plan(
            "genoa-1",
            change(
                id="1",
                step="container",
                subject="a",
                operations=(record("genoa-1", both), wait("rag_a_0", 8100)),
            ),
        )
    )


def test_models_no_change_touches_are_offered_once_the_host_is_done() -> None:
    outcome = sample_outcome({"genoa-1": of_host("done", *done("1"))})
    assert [e.model for e in endpoints(outcome, two_models())] == ["a", "b"]


def test_of_a_host_that_did_not_finish_only_what_passed_is_offered() -> None:
    outcome = sample_outcome({"genoa-1": of_host("interrupted", *done("1"))})
    assert [e.model for e in endpoints(outcome, two_models())] == ["a"]


def test_a_proven_model_is_offered_too() -> None:
    gate = change(
        id="1", step="container", action="gate", subject="qwen3", operations=(wait("rag_qwen3_0", 8100),)
    )
    plan = plan_of(host_plan("genoa-1", gate, allocations=(allocation(model="qwen3"),)))
    [found] = endpoints(sample_outcome({"genoa-1": of_host("done", *done("1"))}), plan)
    assert (found.model, found.instance, found.url) == ("qwen3", 0, "http://127.0.0.1:8100/v1")


def test_instances_of_one_model_are_told_apart() -> None:
    both = {
        "rag_a_0": instance("a", port=8100),
        "rag_a_1": instance("a", port=8101, number=1),
    }
    plan = plan_of(
        host_plan("genoa-1", change(id="1", step="container", subject="a", operations=(record("g", both),)))
    )
    rendered = text(sample_outcome({"genoa-1": of_host("done", *done("1"))}), plan)
    assert "a instance 1 on genoa-1: http://127.0.0.1:8101/v1" in rendered


def test_listening_everywhere_is_told_as_the_address_of_the_host() -> None:
    assert base_url("0.0.0.0", 8100, "10.20.2.11") == "http://10.20.2.11:8100/v1"
    assert base_url("::", 8100, "genoa.example") == "http://genoa.example:8100/v1"
    assert base_url("fd00::1", 8100, "x") == "http://[fd00::1]:8100/v1"


def test_a_destroyed_deployment_offers_nothing() -> None:
    plan = plan_of(*sample_plan().hosts.values(), destroy=True)
    assert endpoints(sample_outcome(), plan) == []


def test_the_data_form_has_exit_codes_and_endpoints() -> None:
    data = json.loads(json_document(outcome_data(sample_outcome(), sample_plan())))
    assert data["schema"] == "cpudeploy.outcome/1"
    assert data["exit_code"] == 7
    assert {name: host["exit_code"] for name, host in data["hosts"].items()} == {"small-1": 0, "genoa-1": 7}
    assert data["endpoints"] == [
        {"host": "small-1", "model": "minicpm5-1b", "instance": 0, "url": "http://127.0.0.1:8080/v1"}
    ]
