"""What a failure says: the cause by exit code, by log, by a playbook's rule."""

from __future__ import annotations

import pytest

from cpudeploy.errors import EngineError
from cpudeploy.execute.failure import ScriptFailed, diagnose, explain, failure_of
from cpudeploy.manifest import load_playbook
from cpudeploy.types.release import Diagnosis

LLAMA = (
    "0.00.010 I build: 11434",
    "0.00.101 E gguf_init_from_file: failed to open GGUF file '/models/x.gguf' (No such file or directory)",
    "0.00.102 E llama_model_load: error loading model",
    "0.00.103 I srv main: exiting due to model loading error",
)


@pytest.mark.parametrize(
    ("exit_code", "oom", "says"),
    [(132, False, "illegal instruction"), (139, False, "segmentation"), (137, True, "out of memory")],
)
def test_an_exit_that_speaks_for_itself(exit_code: int, oom: bool, says: str) -> None:
    assert says in explain(exit_code, oom, LLAMA)


def test_otherwise_the_first_line_that_looks_like_an_error_and_not_the_last() -> None:
    assert explain(1, False, LLAMA) == LLAMA[1].partition(" E ")[2]


def test_a_log_without_an_error_gives_no_cause() -> None:
    assert explain(1, False, ["starting", "loading"]) == ""


def test_the_first_rule_that_fits_in_every_part_wins() -> None:
    rules = (
        Diagnosis(exit_code=2, log="GGUF", cause="wrong exit", do=""),
        Diagnosis(oom=True, log="GGUF", cause="wrong oom", do=""),
        Diagnosis(exit_code=1, log=r"No such file", cause="not there", do="fetch"),
        Diagnosis(log="GGUF", cause="too late", do=""),
    )
    assert diagnose(rules, 1, False, LLAMA) == ("not there", "fetch")


def test_what_a_rules_pattern_found_stands_in_its_words() -> None:
    rule = Diagnosis(
        log=r"maximum model length is (?P<length>\d+)(?P<more>, .*)?",
        cause="{length}{more} fit",
        do="lower to {length}",
    )
    said = ["the estimated maximum model length is 256. Try"]
    assert diagnose((rule,), 1, False, said) == ("256 fit", "lower to 256")


def test_an_abort_is_told_with_what_was_said_before_it() -> None:
    said = ["0.00.101 E ggml.c:123: GGML_ASSERT(n > 0) failed"]
    assert explain(134, False, said) == "the engine aborted: ggml.c:123: GGML_ASSERT(n > 0) failed"
    assert explain(134, False, ["loading"]) == "the engine aborted"


def test_an_error_of_ours_keeps_place_and_advice() -> None:
    failure = failure_of(EngineError("no", where="h1", do="look"))
    assert (failure.what, failure.do) == ("h1: no", "look")


def test_a_scripts_failure_keeps_its_lines() -> None:
    failure = failure_of(ScriptFailed("script x failed", log=["begun", "E: Unable to locate package"]))
    assert failure.cause == "E: Unable to locate package"
    assert failure.log == ("begun", "E: Unable to locate package")


def test_what_a_log_says_is_taken_as_it_is_and_not_at_any_length() -> None:
    rule = Diagnosis(log=r"bad (?P<argument>\S+): (?P<why>.+)", cause="{argument}: {why}", do="")
    assert diagnose((rule,), 1, False, ["bad {why}: no"])[0] == "{why}: no"
    assert len(diagnose((rule,), 1, False, ["bad --x: " + "no " * 100_000])[0]) < 400


@pytest.mark.parametrize("playbook", ["vllm-cpu", "llama-cpp"])
def test_lines_of_any_length_are_looked_through(playbook: str) -> None:
    rules = load_playbook(playbook, ()).diagnose
    said = ["a" * 100_000, "To serve at least one request (1), (1 MiB" * 5000, "node 1 (1/" * 10_000] * 20
    assert diagnose(rules, 1, False, said) == ("", "")
