"""What the faults are judged by: silence as users notice it, leftovers, and a page that hides no failure."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.bench import Result
from tests.faults.cases import IN_WORDS, WAYS, boundaries, chosen, moments
from tests.faults.page import page
from tests.faults.service import Try, silence
from tests.faults.shape import differences, plain


def tries(*contexts: int | None) -> list[Try]:
    """A request a second, each answered after half of one."""
    return [Try(second, second + 0.5, context) for second, context in enumerate(contexts)]


@pytest.mark.parametrize(
    ("contexts", "seconds"),
    [
        ((512, 512, 1024), 0),
        ((512, None, None, 1024), 3),
        ((512, None, 1024, None, 1024), 4),
        ((None, None, 512), 2.5),
        ((512, None, None), 2.5),
    ],
    ids=["none", "one", "two", "from the start", "to the end"],
)
def test_silence_is_from_the_last_answer_to_the_next(contexts: tuple[int | None, ...], seconds: float):
    asked = tries(*contexts)
    assert silence(asked, 0, len(contexts)) == seconds


def test_only_the_silence_of_the_given_time_counts():
    assert silence(tries(512, None, 512, 512, None, 512), 2.6, 10) == 2


def test_what_is_there_twice_or_not_any_more_is_told():
    before = Counter(["container rag_tiny_0", "network rag_pub"])
    after = Counter(["container rag_tiny_0", "container rag_tiny_0_old"])
    assert differences(before, after) == ["+1 container rag_tiny_0_old", "-1 network rag_pub"]


def test_two_upgrades_look_the_same_and_two_containers_do_not():
    assert plain("file ./rag/secrets/x/0003-1a2b3c4d") == plain("file ./rag/secrets/x/0009-ffffffff")
    assert plain("process llama-server --ctx-size 512") == plain("process llama-server --ctx-size 1024")
    assert plain("container rag_tiny_0 running on rag_pub") != plain(
        "container rag_tiny_1 running on rag_pub"
    )


def test_cases_have_names_of_their_own_and_are_the_same_for_a_seed():
    cases = [
        case
        for way in WAYS
        for case in (*boundaries(way, ["lock", "end"]), *moments(way, 9.0, 7), *chosen(way))
    ]
    assert len({case.name for case in cases}) == len(cases) == 4 + 20 + 12
    assert list(moments("beside", 9.0, 7)) == list(moments("beside", 9.0, 7))
    assert list(moments("beside", 9.0, 7)) != list(moments("beside", 9.0, 8))


def test_a_page_tells_every_case_and_what_failed():
    good = Result("beside/kill-before-00", "beside", "kill", "before the first step", serves="old")
    bad = Result(
        "beside/cut-x", "beside", "cut", "before “x”", serves="nothing", wrong=["+1 container y"], apply=3
    )
    run = {
        "date": "2026-11-30",
        "seed": 7,
        "minutes": 1.0,
        "machine": {"text": "A machine."},
        "faults": IN_WORDS,
        "ways": {"beside": {"steps": ["lock"], "seconds": 9.0, "silent_s": 0.2}},
        "results": [good.as_json(), bad.as_json()],
    }
    text = page(run)
    assert "1 of 2 cases passed" in text
    assert "`beside/cut-x` (before “x”): +1 container y" in text
    assert "| `kill-before-00` |" in text and "| `cut-x` ✗ |" in text
    assert "seed 7" in text
