"""Every number is told with its reason and where it was wished for."""

from __future__ import annotations

import msgspec

from cpudeploy.report.explain_text import render_explanation
from cpudeploy.types.explanation import Explained, Explanation

from .samples import allocation


def explained(**changes) -> Explained:
    values = {
        "host": "genoa-1",
        "model": "qwen3",
        "backend": "llama",
        "listen": "127.0.0.1",
        "port": 8100,
        "allocation": allocation(),
        "written": {"context": "site.yaml:12:14", "port": "site.yaml:13:11"},
    }
    return Explained(**{**values, **changes})


def rendered(*instances: Explained, width: int = 200, **changes) -> str:
    told = Explanation(deployment="rag", instances=instances, **changes)
    return render_explanation(told, colour=False, width=width)


def line(text: str, field: str) -> str:
    (found,) = (each for each in text.splitlines() if each.strip().startswith(f"{field} "))
    return found


def test_a_number_stands_beside_its_reason_and_where_it_was_written():
    kept = allocation(reasons={"cpus": "all 4 free cores", "context": "as asked for", "kv": "30 layers"})
    text = rendered(explained(allocation=kept))
    assert "all 4 free cores" in line(text, "cpus")
    assert "as asked for (site.yaml:12:14)" in line(text, "context")
    assert "30 layers" in line(text, "KV cache")
    assert "8100" in line(text, "port")
    assert "site.yaml:13:11" in line(text, "port")


def test_parts_that_are_nothing_are_left_out_and_all_others_are_there():
    need = msgspec.structs.replace(allocation().need, repack=0, projector=1 << 30, state=5 << 20)
    text = rendered(explained(allocation=msgspec.structs.replace(allocation(), need=need)))
    assert "rearranged" not in text
    assert "1 GiB" in line(text, "projector")
    assert "5 MiB" in line(text, "state")


def test_ranks_are_told_where_there_are_several():
    assert "ranks" not in rendered(explained())
    split = msgspec.structs.replace(allocation(), ranks=2, mems="0-1")
    assert "a NUMA node of its own" in line(rendered(explained(allocation=split)), "ranks")


def test_warnings_follow_their_model():
    loud = msgspec.structs.replace(allocation(), warnings=("its cores are far apart",))
    first, second = explained(allocation=loud), explained(model="other")
    text = rendered(first, second)
    assert text.index("! its cores are far apart") < text.index("other")


def test_what_has_no_numbers_says_why():
    text = rendered(untold={"xeon": ("unreachable: no route", "rerank not yet: later")})
    assert "! xeon  unreachable: no route" in text
    assert "! xeon  rerank not yet: later" in text


def test_recorded_facts_are_named():
    assert "from recorded facts of there" in rendered(explained(), recorded="there")


def test_nothing_of_a_host_reaches_the_terminal_raw():
    loud = msgspec.structs.replace(allocation(), warnings=("\x1b[2Jgone",))
    assert "\x1b" not in rendered(explained(allocation=loud))
