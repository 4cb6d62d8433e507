"""Cores are kept, given as asked, shared equally, or refused with a way out."""

from __future__ import annotations

import pytest

from cpudeploy.errors import DoesNotFit
from cpudeploy.sizing.cores import Wish, share_cores
from cpudeploy.sizing.cpulist import format_cpulist, parse_cpulist
from cpudeploy.types.base import Unknown
from cpudeploy.types.facts import Cpu
from tests.factories import cores, facts

NOBODY: dict[str, frozenset[int]] = {}


def shares(host, *wishes, reserve=None, pinned=NOBODY):
    given = share_cores(host, wishes, reserve=reserve, pinned=pinned)
    return {name: (share.cpuset, share.threads, share.batch) for name, share in given.items()}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (facts(cores=cores(4)), ("0-3", 4, 4)),
        (facts(cores=cores(2, smt=2)), ("0-3", 2, 4)),
        (facts(cores=cores(2), quota=0.5), ("0-1", 1, 1)),
        (facts(cores=cores(8), quota=2.7, memory=1), ("0-6", 2, 2)),
        (facts(cores=cores(16)), ("0-14", 15, 15)),
        (facts(cores=cores(64, smt=2, nodes=2)), ("0-61,64-125", 62, 124)),
    ],
)
def test_a_lone_auto_takes_all_cores_but_the_reserve_and_never_more_threads_than_the_quota(host, expected):
    assert shares(host, Wish("m", "auto")) == {"m": expected}


def test_fresh_autos_share_equally_in_manifest_order():
    given = shares(facts(cores=cores(5)), Wish("a", "auto"), Wish("b", "auto"))
    assert given == {"a": ("0-2", 3, 3), "b": ("3-4", 2, 2)}


def test_a_running_model_keeps_its_cores_and_the_newcomer_takes_what_is_free():
    given = shares(facts(), Wish("new", "auto"), Wish("old", "auto", running="0-1"))
    assert given == {"old": ("0-1", 2, 2), "new": ("2-3", 2, 2)}


def test_a_listed_half_of_a_core_counts_as_one_core():
    assert shares(facts(cores=cores(2, smt=2)), Wish("m", "0")) == {"m": ("0", 1, 1)}


def test_cores_that_other_containers_are_pinned_to_are_not_given():
    given = shares(facts(), Wish("m", "auto"), pinned={"other": frozenset({0, 1})})
    assert given == {"m": ("2-3", 2, 2)}


def test_cores_of_one_numa_node():
    given = shares(facts(cores=cores(4, nodes=2)), Wish("m", "numa:1"))
    assert given == {"m": ("2-3", 2, 2)}


@pytest.mark.parametrize(
    "wishes",
    [
        [Wish("a", "auto"), Wish("b", "auto"), Wish("c", "auto")],
        [Wish("a", "cores:3")],
        [Wish("a", "0-1"), Wish("b", "1")],
        [Wish("a", "numa:7")],
        [Wish("a", "0-9")],
    ],
)
def test_a_shortage_is_refused_with_a_way_out(wishes):
    with pytest.raises(DoesNotFit) as raised:
        shares(facts(cores=cores(2)), *wishes)
    assert raised.value.where == "one"
    assert raised.value.do


def test_unknown_cores_are_never_guessed():
    unknown = facts()
    unknown = type(unknown)(
        **{
            **{field: getattr(unknown, field) for field in unknown.__struct_fields__},
            "cpu": Cpu(
                model="x",
                flags=(),
                online=4,
                sockets=1,
                usable=(0, 1, 2, 3),
                cores=Unknown(unknown="no topology"),
                quota=None,
            ),
        }
    )
    with pytest.raises(DoesNotFit, match="no topology"):
        shares(unknown, Wish("m", "auto"))


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5-7,127"])
def test_cpu_lists_survive_the_round_trip(text):
    assert format_cpulist(parse_cpulist(text)) == text


@pytest.mark.parametrize("text", ["3-1", "a", "0-99999", "-1"])
def test_what_is_no_cpu_list_is_refused(text):
    with pytest.raises(ValueError):
        parse_cpulist(text)
