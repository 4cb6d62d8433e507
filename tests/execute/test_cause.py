"""Which line of a log is the cause."""

from __future__ import annotations

import pytest

from cpudeploy.execute.cause import last_words, root_cause, shown, telling, words


def traceback(error: str, *, said_by: str = "", frames: int = 2) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    lines += [
        '  File "/opt/venv/x.py", line 1, in run',
        "    raise ValueError(",
        "    ^^^^^^^^^^^^^^^^^",
    ] * frames
    return [said_by + line for line in [*lines, error]]


WORKER = "(Worker pid=18) ERROR 11-30 20:22:26 [multiproc_executor.py:1063] "
ENGINE = "(EngineCore_DP0 pid=14) ERROR 11-30 20:22:26 [core.py:1510] "


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "(Worker pid=18) INFO 11-30 20:22:24 [runner.py:68] Starting to load model /m",
            "Starting to load model /m",
        ),
        ("\x1b[0;36m(APIServer pid=1)\x1b[0;0m INFO 11-30 20:22:24 [api.py:34] up", "up"),
        ("0.00.004.295 E gguf_init: failed to open", "gguf_init: failed to open"),
        (
            "W1130 20:21:29.141000 1398 torch/_library/triton.py:53] Triton not available",
            "Triton not available",
        ),
        ("[W1130 20:22:24.627337854 utils.cpp:68] Warning: NUMA binding", "Warning: NUMA binding"),
        ("INFO:     Application startup complete.", "Application startup complete."),
        ("\rshards:   0%\rshards:  50%\n", "shards: 50%"),
        ("plain", "plain"),
    ],
)
def test_what_a_line_says_is_told_without_what_stands_before_it(line: str, says: str) -> None:
    assert words(line) == says


def test_the_process_that_failed_is_the_cause_and_not_those_that_saw_it_fail() -> None:
    log = [
        *traceback("ValueError: too little memory", said_by=WORKER),
        *traceback("RuntimeError: Worker failed with error 'too little memory'", said_by=ENGINE),
        *traceback(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        ),
    ]
    assert root_cause(log) == "ValueError: too little memory"


def test_lines_of_several_processes_that_mix_are_told_apart() -> None:
    worker, engine = traceback("KeyError: 'x'", said_by=WORKER), traceback("OSError: later", said_by=ENGINE)
    mixed = [line for pair in zip(worker, engine, strict=True) for line in pair]
    assert root_cause(mixed) == "KeyError: 'x'"


def test_of_a_chain_the_last_tells_most_unless_it_points_back() -> None:
    handled = "During handling of the above exception, another exception occurred:"
    chain = [
        *traceback("KeyError: 'qwen9'"),
        "",
        handled,
        "",
        *traceback("ValueError: unknown model type qwen9"),
    ]
    assert root_cause(chain) == "ValueError: unknown model type qwen9"
    caused = "The above exception was the direct cause of the following exception:"
    chain = [
        *traceback("OSError: no such file"),
        "",
        caused,
        "",
        *traceback("RuntimeError: failed. See stack trace"),
    ]
    assert root_cause(chain) == "OSError: no such file"


def test_of_values_that_are_refused_the_first_is_told() -> None:
    log = [
        *traceback("pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig"),
        "  Value error, invalid literal for int() with base 10: '1.5' [type=value_error, input_value=1, input_type=x]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
    ]
    assert root_cause(log) == "invalid literal for int() with base 10: '1.5'"


@pytest.mark.parametrize(
    "noise",
    [
        [
            "(APIServer pid=1) WARNING 11-30 20:21:29 [u.py:2] Found ulimit and failed to increase with error OSError: x"
        ],
        ["(APIServer pid=1) INFO 11-30 20:21:29 [u.py:2] Failed to import from vllm._C"],
        ["/opt/x.py:138: FutureWarning: `reduce_op` is deprecated and an error soon"],
        ["W1130 20:22:23.478000 18248 torch/_library/triton.py:53] cannot find triton"],
        ["0.00.002.566 W srv: cannot be trusted: no API key is set"],
        ["Exception ignored in: <function X.__del__>", *traceback("TypeError: 'NoneType' object")],
        traceback("KeyboardInterrupt"),
        traceback("asyncio.exceptions.CancelledError"),
    ],
    ids=["warning", "info", "python warning", "torch", "llama", "ignored", "interrupt", "cancelled"],
)
def test_a_warning_that_speaks_of_errors_is_none(noise: list[str]) -> None:
    assert root_cause(noise) == ""
    assert root_cause([*noise, "vllm serve: error: unrecognized arguments: --x"]).endswith("--x")


def test_without_a_traceback_the_first_error_is_the_cause() -> None:
    log = ["loading", "0.00.1.2 E open: no", "0.00.1.3 E exiting due to model loading error"]
    assert root_cause(log) == "open: no"


def test_when_all_only_point_elsewhere_one_of_them_is_better_than_nothing() -> None:
    log = ["starting", *traceback("RuntimeError: Engine core initialization failed. See root cause above.")]
    assert root_cause(log) == "RuntimeError: Engine core initialization failed. See root cause above."


def test_a_traceback_that_is_cut_off_is_no_cause() -> None:
    assert root_cause(traceback("x")[:3]) == ""


def test_frames_and_empty_lines_are_not_shown_but_the_cause_is() -> None:
    log = [*traceback("ValueError: too much", said_by=WORKER), "", *[f"bye {number}" for number in range(9)]]
    assert telling(log, 3) == ("bye 6", "bye 7", "bye 8")
    assert shown(log, 3) == (f"{WORKER}ValueError: too much", "bye 7", "bye 8")
    assert shown(log, 20)[0] == f"{WORKER}ValueError: too much"
    assert last_words(log) == "bye 8"
    assert last_words(["", "  "]) == ""


def test_a_line_that_is_longer_than_anybody_reads_is_cut() -> None:
    assert len(root_cause([f"error: {'x' * 5000}"])) == 300
