"""What `benchmarks.tuning` makes of a rendered command, and of what it measured; running it is for by hand."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.load import Answer, LoadError, told_tokens
from benchmarks.tuning_report import (
    CLIENTS,
    End,
    Failed,
    LeftOut,
    Measured,
    Record,
    Results,
    Run,
    rate,
    rates,
    read,
    report,
)
from benchmarks.tuning_settings import DEFAULTS, F16, LLAMA, OURS, VLLM, settings

COMMAND = ["/models/x", "--max-num-seqs", "4", "--dtype", "bfloat16", "--served-model-name", "m"]


def of(engine: str, title: str, cpus: set[int] | None = None):
    return next(each for each in settings(engine, cpus or {0, 1}) if each.title == title)


@pytest.mark.parametrize("engine", [LLAMA, VLLM])
@pytest.mark.parametrize("cpus", [{1}, {0, 1}, {4, 5, 6, 7}])
def test_at_most_twelve_settings_compete_and_ours_is_as_rendered(engine, cpus):
    found = settings(engine, cpus)
    assert [each.title for each in found[:2]] == [OURS, DEFAULTS]
    assert len({each.title for each in found}) == len(found)
    assert 8 <= sum(each.compared for each in found) <= 12
    assert found[0].command(COMMAND) == COMMAND
    assert found[0].variables({"A": "1"}) == {"A": "1"}


def test_one_flag_is_changed_and_all_others_stay():
    assert of(VLLM, "16 sequences").command(COMMAND) == [
        *("/models/x", "--dtype", "bfloat16", "--served-model-name", "m"),
        *("--max-num-seqs", "16"),
    ]
    assert of(VLLM, "not compiled").command(COMMAND) == [*COMMAND, "--enforce-eager"]


def test_the_defaults_keep_model_and_name_and_lose_what_sizing_said():
    defaults = of(VLLM, DEFAULTS)
    assert defaults.command(COMMAND) == ["/models/x", "--served-model-name", "m"]
    env = {"VLLM_CPU_OMP_THREADS_BIND": "0,1", "VLLM_CPU_KVCACHE_SPACE": "1", "HOME": "/cache"}
    assert defaults.variables(env) == {"HOME": "/cache"}


def test_a_thread_fewer_leaves_out_one_of_the_cores_that_there_are():
    assert of(VLLM, "a thread fewer", {4, 6}).env == {"VLLM_CPU_OMP_THREADS_BIND": "6"}
    assert "a thread fewer" not in [each.title for each in settings(VLLM, {1})]
    assert of(LLAMA, "a thread more", {1}).flags == {"--threads": ["2"], "--threads-batch": ["2"]}


def test_tokens_are_what_the_server_says_at_the_end_of_its_stream():
    tail = b'data: {"text":"a"}\n\ndata: {"choices":[],"usage":{"completion_tokens":64}}\n\ndata: [DONE]\n\n'
    assert told_tokens(tail) == 64
    with pytest.raises(LoadError, match="without usage"):
        told_tokens(b'data: {"choices":[],"usage":null}\n\ndata: [DONE]\n\n')


def test_a_rate_is_that_of_the_middle_request_for_all_clients():
    answers = [Answer(seconds, 0.1, 64) for seconds in (2, 1, 64)]
    assert rate(answers, 4) == 4 * 64 / 2
    assert rates([answers], 1) == (32, 1, 64)


def test_starts_that_differ_widen_the_interval():
    """However many requests each had: two starts are two looks at a setting."""
    fast, slow = ([Answer(seconds, 0.1, 64)] * 20 for seconds in (1, 2))
    assert rates([fast], 1) == (64, 64, 64)
    assert rates([fast, slow], 1) == (48, 32, 64)


def point(setting: str, seconds: float, *, engine: str = LLAMA, start: int = 1, clients: int = 1) -> Measured:
    answers = [Answer(seconds * (1 + step / 1000), seconds / 4, 64) for step in range(-4, 5)]
    return Measured(
        engine=engine,
        cores=2,
        setting=setting,
        compared=setting != F16,
        start=start,
        clients=clients,
        answers=answers,
        start_s=1,
        server=2,
        others=0,
        client=0.01,
        load=2,
    )


def everywhere(setting: str, seconds: float, **more) -> list[Record]:
    return [point(setting, seconds, clients=clients, **more) for clients in CLIENTS]


RUN = Run("2026-11-30", "a machine", 0.1, 20, 1)


def test_ours_is_enough_where_it_is_within_a_twentieth_of_the_best():
    near = [RUN, *everywhere(OURS, 1.04), *everywhere("other", 1.0), *everywhere(DEFAULTS, 2.0)]
    verdicts = list(Results(near).verdicts())
    assert [(v.clients, v.best, v.enough) for v in verdicts] == [(each, "other", True) for each in CLIENTS]
    assert all(v.defaults and 0.51 < v.defaults[0] < 0.53 for v in verdicts)
    assert Results(near).good()
    far = [RUN, *everywhere(OURS, 1.07), *everywhere("other", 1.0)]
    assert not Results(far).good()
    assert "**no**" in "\n".join(report(far))


def test_other_weights_do_not_compete_and_their_ratio_is_told():
    records = [*everywhere(OURS, 2), *everywhere(F16, 1), *everywhere(OURS, 4, engine=VLLM)]
    assert all(v.best == OURS for v in Results(records).verdicts())
    assert Results(records).good()
    (row,) = [line for line in report(records) if line.startswith("| 2 | 1 |")]
    assert [cell.split()[0] for cell in row.strip("| ").split(" | ")] == [
        *("2", "1", "16.0", "32.0", "0.50", "64.0", "0.25")
    ]


def test_a_cell_without_ours_is_not_good():
    assert not Results([*everywhere("other", 1)]).good()
    assert not Results(everywhere(OURS, 1)[:2]).good()
    assert not Results([]).good()


def test_an_engine_that_never_answered_has_its_row_and_is_not_good():
    records = [*everywhere(OURS, 1), Failed(VLLM, 2, OURS, "killed: memory")]
    assert not Results(records).good()
    assert "| ours | | killed: memory | | |" in list(report(records))


def test_a_file_that_was_cut_in_the_middle_of_a_line_is_read_up_to_there(tmp_path):
    records = [
        *(RUN, *everywhere(OURS, 1)),
        *(Failed(LLAMA, 2, "a thread more", "no token within 30 s"), LeftOut("the rest"), End(60, 0.5)),
    ]
    file = tmp_path / "records"
    lines = [msgspec.json.encode(record) + b"\n" for record in records]
    file.write_bytes(b"".join(lines))
    assert read(file) == records
    assert "did not come to its end" not in "\n".join(report(read(file)))
    file.write_bytes(b"".join(lines)[:-9])
    assert read(file) == records[:-1]
    text = "\n".join(report(read(file)))
    assert "did not come to its end" in text
    assert "no token within 30 s" in text
    assert "Left out: the rest." in text
