"""Cores are kept, given as asked, shared equally, or refused with a way out."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import DoesNotFit, NoRoom
from cpudeploy.sizing.cores import Wish, share_cores
from cpudeploy.types.base import Unknown
from cpudeploy.types.cpulist import format_cpulist, parse_cpulist
from cpudeploy.types.facts import Core
from tests.factories import cores, facts

from .machines import hybrid, numa, untold

NOBODY: dict[str, frozenset[int]] = {}


def given(host, *wishes, reserve=None, pinned=NOBODY):
    return share_cores(host, wishes, reserve=reserve, pinned=pinned)


def shares(host, *wishes, reserve=None, pinned=NOBODY):
    found = given(host, *wishes, reserve=reserve, pinned=pinned)
    return {name: (share.cpuset, share.threads, share.batch) for name, share in found.items()}


def refused(host, *wishes, reserve=None, pinned=NOBODY):
    with pytest.raises(DoesNotFit) as raised:
        given(host, *wishes, reserve=reserve, pinned=pinned)
    assert raised.value.where == "one"
    assert raised.value.do
    return raised.value


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (facts(cores=cores(4)), ("0-3", 4, 4)),
        (facts(cores=cores(2, smt=2)), ("0-3", 2, 4)),
        (facts(cores=cores(2), quota=0.5), ("0-1", 1, 1)),
        (facts(cores=cores(4, smt=2), quota=6.0), ("0-7", 4, 4)),
        (facts(cores=cores(8), quota=2.7, memory=1), ("0-6", 2, 2)),
        (facts(cores=cores(16)), ("0-14", 15, 15)),
        (facts(cores=cores(64, smt=2, nodes=2)), ("0-61,64-125", 62, 124)),
    ],
)
def test_a_lone_auto_takes_all_cores_but_the_reserve_and_never_more_threads_than_the_quota(host, expected):
    assert shares(host, Wish("m", "auto")) == {"m": expected}


def test_fresh_autos_share_equally_in_manifest_order():
    found = shares(facts(cores=cores(5)), Wish("a", "auto"), Wish("b", "auto"))
    assert found == {"a": ("0-2", 3, 3), "b": ("3-4", 2, 2)}


def test_what_the_manifest_reserves_is_left():
    assert shares(facts(cores=cores(4)), Wish("m", "auto"), reserve=2) == {"m": ("0-1", 2, 2)}
    assert shares(facts(cores=cores(16)), Wish("m", "auto"), reserve=0) == {"m": ("0-15", 16, 16)}
    assert "2 left to the system" in refused(facts(cores=cores(4)), Wish("m", "cores:3"), reserve=2).what


def test_a_number_that_is_said_goes_before_the_reserve_that_is_not():
    assert shares(facts(cores=cores(8)), Wish("m", "cores:8")) == {"m": ("0-7", 8, 8)}


class TestKept:
    def test_a_running_model_keeps_its_cores_and_the_newcomer_takes_what_is_free(self):
        found = shares(facts(), Wish("new", "auto"), Wish("old", "auto", running="0-1"))
        assert found == {"old": ("0-1", 2, 2), "new": ("2-3", 2, 2)}

    def test_its_threads_stay_too(self):
        old = Wish("old", "auto", running="0-1", threads=1, batch=2)
        assert shares(facts(), old) == {"old": ("0-1", 1, 2)}

    def test_but_never_more_than_a_quota_that_came_since(self):
        old = Wish("old", "auto", running="0-3", threads=4, batch=4)
        assert shares(facts(quota=2.5), old) == {"old": ("0-3", 2, 2)}

    def test_half_a_core_that_was_listed_is_kept_as_it_is(self):
        share = given(facts(cores=cores(2, smt=2)), Wish("m", "0", running="0", threads=1, batch=1))["m"]
        assert (share.cpuset, share.kept) == ("0", True)

    def test_cores_that_are_gone_are_not_kept(self):
        share = given(facts(cores=cores(2)), Wish("m", "auto", running="0-3", threads=4, batch=4))["m"]
        assert (share.cpuset, share.threads, share.kept) == ("0-1", 2, False)

    def test_a_stranger_that_is_pinned_to_them_since_moves_nobody_and_is_told(self):
        share = given(facts(), Wish("m", "auto", running="0-1"), pinned={"theirs": frozenset({1})})["m"]
        assert (share.cpuset, share.kept) == ("0-1", True)
        assert any("theirs" in warning for warning in share.warnings)

    def test_a_full_host_offers_to_deal_out_again(self):
        shortage = refused(facts(), Wish("new", "auto"), Wish("old", "auto", running="0-3"))
        assert "old has 0-3" in shortage.what
        assert "--repack" in shortage.do


class TestAsked:
    def test_a_listed_half_of_a_core_counts_as_one_core(self):
        assert shares(facts(cores=cores(2, smt=2)), Wish("m", "0")) == {"m": ("0", 1, 1)}

    def test_the_other_half_is_nobodys(self):
        refused(facts(cores=cores(1, smt=2)), Wish("a", "0"), Wish("b", "1"))

    def test_a_list_is_had_whatever_was_written_before_it(self):
        found = shares(facts(), Wish("a", "cores:2"), Wish("b", "0-1"))
        assert found == {"a": ("2-3", 2, 2), "b": ("0-1", 2, 2)}

    def test_where_others_have_all_cores_no_advice_is_given_that_can_not_help(self):
        all_taken = {"theirs": frozenset({0, 1, 2, 3})}
        for wish in ("auto", "shared"):
            error = refused(facts(), Wish("m", wish), pinned=all_taken)
            assert "container theirs has 0-3" in error.what
            assert "fewer CPUs" in error.do
            assert "cpus: shared" not in error.do

    def test_where_others_have_some_sharing_the_rest_is_a_way_too(self):
        wishes = [Wish(name, "auto") for name in "abc"]
        error = refused(facts(), *wishes, pinned={"theirs": frozenset({0, 1})})
        assert "cpus: shared" in error.do
        assert "fewer CPUs" in error.do

    def test_cores_that_other_containers_are_pinned_to_are_not_given(self):
        found = shares(facts(), Wish("m", "auto"), pinned={"other": frozenset({0, 1})})
        assert found == {"m": ("2-3", 2, 2)}

    def test_cores_of_one_numa_node(self):
        assert shares(numa(2, 2), Wish("m", "numa:1")) == {"m": ("2-3", 2, 2)}

    def test_two_that_ask_for_one_node_share_it(self):
        found = shares(numa(4, 2), Wish("a", "numa:1", ""), Wish("b", "numa:1"))
        assert found == {"a": ("4-5", 2, 2), "b": ("6-7", 2, 2)}


class TestNuma:
    def test_three_models_on_two_nodes_of_56_cores_are_disjoint_and_within_a_node_each(self):
        found = given(numa(56, 2, smt=2), *(Wish(name, "auto") for name in "abc"))
        assert [share.threads for share in found.values()] == [54, 28, 28]
        assert all(len(share.nodes) == 1 for share in found.values())
        cpus = [cpu for share in found.values() for cpu in parse_cpulist(share.cpuset)]
        assert len(cpus) == len(set(cpus)) == 2 * 110

    def test_fewer_models_than_nodes_get_whole_nodes(self):
        found = given(numa(4, 4), *(Wish(name, "auto") for name in "ab"), reserve=0)
        assert [share.nodes for share in found.values()] == [(0, 1), (2, 3)]

    def test_a_node_that_has_the_reserve_is_no_worse_for_it(self):
        found = given(numa(16, 4), *(Wish(name, "auto") for name in "abc"))
        assert [(share.threads, share.nodes) for share in found.values()] == [
            (32, (0, 1)),
            (16, (2,)),
            (14, (3,)),
        ]

    def test_nodes_that_are_nearly_full_make_nobody_poor(self):
        pinned = {"theirs": frozenset(range(1, 8))}  # one core of node 0 is free
        found = given(numa(8, 2), Wish("a", "auto"), Wish("b", "auto"), reserve=0, pinned=pinned)
        assert [share.threads for share in found.values()] == [4, 4]

    def test_a_number_of_cores_stays_within_a_node_and_leaves_whole_ones_whole(self):
        found = given(numa(4, 3), Wish("old", "auto", running="0-1"), Wish("m", "cores:2"))
        assert found["m"].cpuset == "2-3"

    def test_a_number_larger_than_a_node_takes_whole_nodes_first(self):
        found = given(numa(4, 3), Wish("old", "auto", running="0-1"), Wish("m", "cores:8"))
        assert found["m"].cpuset == "4-11"


class TestHybrid:
    def test_only_fast_cores_work_and_their_siblings_read_prompts(self):
        assert shares(hybrid(6, 8), Wish("m", "auto")) == {"m": ("0-11", 6, 12)}

    def test_big_cores_whose_clocks_differ_a_little_are_alike(self):
        little = tuple(Core(cpus=(i,), socket=0, node=0, speed=530) for i in range(4))
        big = tuple(Core(cpus=(i,), socket=0, node=0, speed=1024 if i > 5 else 963) for i in range(4, 8))
        assert shares(facts(cores=little + big), Wish("m", "auto")) == {"m": ("4-7", 4, 4)}

    def test_a_number_beyond_the_fast_ones_takes_slow_ones_as_well(self):
        assert shares(hybrid(2, 4), Wish("m", "cores:4")) == {"m": ("0-5", 4, 6)}

    def test_slow_cores_are_better_than_none(self):
        found = given(hybrid(2, 4), Wish("old", "auto", running="0-3"), Wish("new", "auto"))
        assert found["new"].cpuset == "4-7"

    def test_more_models_than_fast_cores_share_all_and_are_told(self):
        found = given(hybrid(1, 3), Wish("a", "auto"), Wish("b", "auto"))
        assert {share.threads for share in found.values()} == {2}
        assert any("slow" in warning for share in found.values() for warning in share.warnings)

    def test_speeds_that_are_only_known_of_some_tell_nothing(self):
        mixed = (Core(cpus=(0,), socket=0, node=0, speed=900), Core(cpus=(1,), socket=0, node=0))
        assert shares(facts(cores=mixed), Wish("m", "auto")) == {"m": ("0-1", 2, 2)}


class TestUntoldTopology:
    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            (untold(112), ("0-107", 54, 108)),
            (untold(192, arch="arm64"), ("0-189", 190, 190)),
            (untold(48, quota=46.08), ("0-45", 46, 46)),
            (untold(1), ("0", 1, 1)),
            (untold(4, quota=1.5), ("0-3", 1, 1)),
        ],
    )
    def test_half_of_the_cpus_where_two_may_share_a_core_and_what_a_quota_says(self, host, expected):
        assert shares(host, Wish("m", "auto")) == {"m": expected}

    def test_it_is_told(self):
        (warning,) = given(untold(8), Wish("m", "auto"))["m"].warnings
        assert "no topology" in warning

    @pytest.mark.parametrize(("wish", "expected"), [("cores:6", ("0-5", 6, 6)), ("0-7", ("0-7", 8, 8))])
    def test_what_the_manifest_says_counts(self, wish, expected):
        share = given(untold(8), Wish("m", wish))["m"]
        assert (share.cpuset, share.threads, share.batch) == expected
        assert share.warnings == ()

    def test_nodes_are_known_all_the_same(self):
        found = given(untold(16, nodes=2), Wish("a", "auto"), Wish("b", "auto"), reserve=0)
        assert [(share.nodes, share.threads) for share in found.values()] == [((0,), 4), ((1,), 4)]

    def test_nothing_known_at_all_is_never_guessed(self):
        host = untold(4)
        blind = msgspec.structs.replace(host.cpu, usable=Unknown(unknown="masked"))
        assert "no topology" in refused(msgspec.structs.replace(host, cpu=blind), Wish("m", "auto")).what


class TestShared:
    THREE = (Wish("a", "shared"), Wish("b", "shared"), Wish("c", "shared"))

    def test_three_on_two_cores_split_the_threads_and_are_told(self):
        found = given(facts(cores=cores(2, smt=2)), *self.THREE)
        assert {(s.cpuset, s.threads, s.batch) for s in found.values()} == {("0-3", 1, 1)}
        assert all("shares 2 cores" in share.warnings[0] for share in found.values())

    def test_many_cores_are_split_in_equal_parts(self):
        found = shares(facts(cores=cores(7, smt=2)), *self.THREE)
        assert set(found.values()) == {("0-13", 2, 4)}

    def test_one_alone_has_nobody_to_share_with(self):
        share = given(facts(), Wish("m", "shared"))["m"]
        assert (share.threads, share.warnings) == (4, ())

    def test_cores_of_others_are_not_shared(self):
        found = shares(facts(), Wish("a", "cores:1"), Wish("b", "shared"), Wish("c", "shared"))
        assert found == {"a": ("0", 1, 1), "b": ("1-3", 1, 1), "c": ("1-3", 1, 1)}

    def test_beside_autos_they_count_as_one(self):
        found = shares(facts(), Wish("b", "shared"), Wish("c", "shared"), Wish("a", "auto"))
        assert found == {"b": ("2-3", 1, 1), "c": ("2-3", 1, 1), "a": ("0-1", 2, 2)}

    def test_a_newcomer_joins_and_changes_nobody(self):
        found = shares(facts(), Wish("a", "shared", running="0-3", threads=4, batch=4), Wish("b", "shared"))
        assert found == {"a": ("0-3", 4, 4), "b": ("0-3", 2, 2)}

    def test_a_newcomer_that_does_not_share_finds_no_core(self):
        refused(facts(), Wish("a", "shared", running="0-3", threads=4, batch=4), Wish("b", "auto"))


class TestQuota:
    def test_it_is_shared_out_among_models(self):
        found = shares(facts(cores=cores(8), quota=4.0), Wish("a", "auto"), Wish("b", "auto"), reserve=0)
        assert found == {"a": ("0-3", 2, 2), "b": ("4-7", 2, 2)}

    def test_a_newcomer_gets_what_is_left_of_it(self):
        old = Wish("old", "auto", running="0-3", threads=3, batch=3)
        found = given(facts(cores=cores(8), quota=4.0), old, Wish("new", "auto"), reserve=0)
        assert [(share.threads, share.warnings) for share in found.values()] == [(3, ()), (1, ())]

    def test_more_models_than_it_feeds_are_told(self):
        found = given(facts(quota=1.0), Wish("a", "auto"), Wish("b", "auto"))
        assert {share.threads for share in found.values()} == {1}
        assert all("throttled" in share.warnings[0] for share in found.values())

    def test_one_that_is_unknown_is_told(self):
        cpu = msgspec.structs.replace(facts().cpu, quota=Unknown(unknown="cgroups are masked"))
        (warning,) = given(facts(cpu=cpu), Wish("m", "auto"))["m"].warnings
        assert "cgroups are masked" in warning


@pytest.mark.parametrize(
    "wishes",
    [
        [Wish("a", "auto"), Wish("b", "auto"), Wish("c", "auto")],
        [Wish("a", "cores:3")],
        [Wish("a", "0-1"), Wish("b", "1")],
        [Wish("a", "numa:7")],
        [Wish("a", "0-9")],
        [Wish("a", "0-1"), Wish("b", "shared")],
    ],
)
def test_a_shortage_is_refused_with_a_way_out(wishes):
    refused(facts(cores=cores(2)), *wishes)


def test_a_number_that_is_too_large_is_told_the_largest_there_is():
    assert "at most 3" in refused(facts(), Wish("a", "0"), Wish("b", "cores:4")).do
    assert given(facts(), Wish("a", "0"), Wish("b", "cores:3"))


def test_a_numa_node_that_there_is_not_is_told_from_a_full_one():
    with pytest.raises(DoesNotFit) as caught:
        given(numa(2, 2), Wish("a", "numa:7"))
    assert not isinstance(caught.value, NoRoom)
    assert caught.value.do == "choose from numa:0, numa:1"


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5-7,127"])
def test_cpu_lists_survive_the_round_trip(text):
    assert format_cpulist(parse_cpulist(text)) == text


@pytest.mark.parametrize("text", ["3-1", "a", "0-99999", "-1"])
def test_what_is_no_cpu_list_is_refused(text):
    with pytest.raises(ValueError):
        parse_cpulist(text)
