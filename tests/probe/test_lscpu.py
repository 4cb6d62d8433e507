"""What lscpu printed, in whatever age, language and width."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpudeploy.probe.lscpu import Row, parse_lscpu

FRENCH = """\
Architecture :                          x86_64
Processeur(s) :                         8
Liste de processeur(s) en ligne :       0-7
Nom de modèle :                         Some CPU
Thread(s) par cœur :                    2
Cœur(s) par socket :                    2
Socket(s) :                             2
Nœud(s) NUMA :                          2
Nœud NUMA 0 de processeur(s) :          0-3
Nœud NUMA 8 de processeur(s) :          4-7
Drapeaux :                              fpu sse2 avx2
"""
JAPANESE = """\
アーキテクチャ:                        x86_64
CPU:                                   8
オンラインになっている CPU のリスト:   0-7
モデル名:                              Some CPU
コアあたりのスレッド数:                2
ソケットあたりのコア数:                2
ソケット数:                            2
NUMA ノード数:                         2
NUMA ノード 0 CPU:                     0-3
NUMA ノード 8 CPU:                     4-7
フラグ:                                fpu sse2 avx2
"""
POLISH = """\
Architektura:           x86_64
CPU:                    8
Lista aktywnych CPU:    0-7
Nazwa modelu:           Some CPU
Wątków na rdzeń:        2
Rdzeni na gniazdo:      2
Gniazd:                 2
Węzłów NUMA:            2
Procesory węzła NUMA 0: 0-3
Procesory węzła NUMA 8: 4-7
Flagi:                  fpu sse2 avx2
"""
SPANISH = """\
Arquitectura:                          x86_64
CPU(s):                                8
Lista de la(s) CPU(s) en línea:        0-7
Nombre del modelo:                     Some CPU
Hilo(s) de procesamiento por núcleo:   2
Núcleo(s) por «socket»:                2
«Socket(s)»:                           2
Modo(s) NUMA:                          2
CPU(s) del nodo NUMA 0:                0-3
CPU(s) del nodo NUMA 8:                4-7
Indicadores:                           fpu sse2 avx2
"""


@pytest.mark.parametrize("text", [FRENCH, JAPANESE, POLISH, SPANISH], ids=["fr", "ja", "pl", "es"])
def test_a_language_changes_nothing(text: str) -> None:
    found = parse_lscpu(text)
    (kind,) = found.kinds
    assert (found.arch, found.on, found.sockets) == ("x86_64", frozenset(range(8)), 2)
    assert (kind.model, kind.threads, kind.cores) == ("Some CPU", 2, 2)
    assert kind.flags == ("fpu", "sse2", "avx2")
    assert found.nodes == {0: frozenset(range(4)), 8: frozenset(range(4, 8))}


def test_a_value_cut_by_a_terminal_is_put_together() -> None:
    text = (
        "Model name:     Some CPU\n"
        "    Flags:      fpu sse2 avx a\n"
        "                vx2 avx512f am\n"
        "                 x\n"
        "Caches:\n"
        "  L3:           1 MiB\n"
    )
    # The third line begins with the blank between two words.
    assert parse_lscpu(text).flags == (("fpu", "sse2", "avx", "avx2", "avx512f", "am", "x"),)


def test_a_value_cut_between_words_keeps_its_words() -> None:
    text = "Flags:          fpu sse2 avx\n                avx2 avx512f avx512bw\n                amx_tile\n"
    assert parse_lscpu(text).flags == (("fpu", "sse2", "avx", "avx2", "avx512f", "avx512bw", "amx_tile"),)


def test_json_is_the_same_whether_it_is_flat_or_a_tree() -> None:
    pairs = [("Architecture:", "aarch64"), ("CPU(s):", "4"), ("On-line CPU(s) list:", "0-3")]
    flat = {"lscpu": [{"field": field, "data": data} for field, data in pairs]}
    first, *others = flat["lscpu"]
    tree = {"lscpu": [{**first, "children": others}]}
    assert parse_lscpu(json.dumps(flat)) == parse_lscpu(json.dumps(tree, indent=3))
    assert parse_lscpu(json.dumps(tree)).on == frozenset(range(4))


@pytest.mark.parametrize(
    "table",
    [
        "# CPU,Core,Socket,Node,,L1d\n0,0,0,0,,0\n4,0,0,0,,0\n2,1,1,8,,1\n3,,,,,\n",
        "CPU NODE SOCKET CORE L1d:L1i ONLINE MAXMHZ\n  0 0 0 0 0:0 yes -\n  4 0 0 0 0:0 yes -\n"
        "  2 8 1 1 1:1 yes -\n  3 - - - 3:3 no -\n",
    ],
    ids=["-p", "-e"],
)
def test_tables_tell_who_shares_a_core_and_leave_out_what_is_off_line(table: str) -> None:
    found = parse_lscpu(table)
    assert found.rows == [Row(0, 0, 0, 0, 0), Row(4, 0, 0, 0, 0), Row(2, 1, 1, 8, 0)]
    assert found.on == {0, 2, 4}


def test_lists_count_and_not_the_number_of_cpus() -> None:
    holes = parse_lscpu("CPU(s): 8\nOn-line CPU(s) list: 0,2,4,159\nOff-line CPU(s) list: 1,3 --- why?\n")
    assert (holes.on, holes.offline) == ({0, 2, 4, 159}, {1, 3})
    # A node may list CPUs that are not there; with nothing else, lists of the right length are believed.
    assert parse_lscpu("CPU(s): 2\nNUMA node0 CPU(s): 0-140\n").on == frozenset()
    assert parse_lscpu("NUMA node0 CPU(s): 0-3\nNUMA node1 CPU(s): 4-7\n").on == frozenset(range(8))


def test_the_oldest_version_and_a_quotation_are_read() -> None:
    old = (
        "CPU(s): 8\nThread(s) per core: 2\nCore(s) per socket: 2\nCPU socket(s): 2\nNUMA node0 CPU(s): 0-7\n"
    )
    quoted = "".join(f"> {line}\n" for line in old.splitlines())
    for text in (old, quoted):
        found = parse_lscpu(text)
        assert (found.cpus, found.sockets, found.on) == (8, 2, frozenset(range(8)))


def test_a_dash_is_not_a_number() -> None:
    found = parse_lscpu("Model name: -\nThread(s) per core: -\nSocket(s): -\nCore(s) per cluster: 4\n")
    assert (found.models, found.sockets, found.kinds[0].threads) == ((), None, None)


def test_kinds_of_processors_are_kept_apart_and_their_sockets_not_added() -> None:
    block = "Model name: {0}\nThread(s) per core: 1\nCore(s) per socket: {1}\nSocket(s): 1\nFlags: fp {2}\n"
    found = parse_lscpu(block.format("Small", 4, "asimd") + block.format("Big", 2, "asimd sve"))
    assert found.models == ("Small", "Big")
    assert (found.sockets, [kind.cores for kind in found.kinds]) == (1, [4, 2])
    assert found.flags == (("fp", "asimd"), ("fp", "asimd", "sve"))


def test_a_summary_and_a_table_that_disagree_about_sockets_tell_none() -> None:
    books = "Socket(s) per book: 3\nBook(s) per drawer: 2\nDrawer(s): 4\nModel name: -\n"
    assert parse_lscpu("Core(s) per socket: 8\n" + books).sockets == 24
    assert (
        parse_lscpu("Core(s) per socket: 8\n" + books + "# CPU,Core,Socket\n0,0,0\n1,1,1\n").sockets is None
    )


@given(st.text())
def test_no_text_is_too_much_for_it(text: str) -> None:
    found = parse_lscpu(text)
    assert found.on is not None


@given(st.sampled_from([FRENCH, JAPANESE, POLISH]), st.data())
def test_a_part_of_an_output_tells_a_part(text: str, data: st.DataObject) -> None:
    lines = text.splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), unique=True))
    found, whole = parse_lscpu("\n".join(kept)), parse_lscpu(text)
    assert found.nodes.items() <= whole.nodes.items()
    assert found.arch in ("", whole.arch)
    assert found.sockets in (None, whole.sockets)
