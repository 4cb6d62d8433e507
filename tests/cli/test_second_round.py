"""What a first apply could not see is looked at again, whatever became of other hosts; each counts once."""

from __future__ import annotations

from typing import get_args

import pytest

from cpudeploy.cli.carrying_out import Carried
from cpudeploy.errors import OK
from cpudeploy.report.outcome_text import EXIT_CODES
from cpudeploy.types.outcome import HostOutcome, HostStatus, Outcome
from cpudeploy.types.plan import HostPlan, Plan
from tests.factories import deployment

WELL = ("done", "unchanged")
BADLY = tuple(status for status in get_args(HostStatus) if status not in WELL)


def carried(**hosts: tuple[bool, HostStatus]) -> Carried:
    """Host → whether more is wanted there than could be seen, and how it ended."""
    plans = {
        name: HostPlan(host=deployment(hosts=(name,)).hosts[name], headline="", changes=(), partial=partial)
        for name, (partial, _) in hosts.items()
    }
    ends = {name: HostOutcome(host=name, status=status, seconds=1) for name, (_, status) in hosts.items()}
    outcome = Outcome(deployment="rag", plan="p", hosts=ends, seconds=1)
    return Carried(outcome, Plan(deployment="rag", base="", origin="", hosts=plans))


@pytest.mark.parametrize("other", [each for each in (*WELL, *BADLY) if each != "interrupted"])
def test_a_host_is_seen_again_whatever_became_of_another(other: HostStatus):
    assert carried(a=(True, "done"), b=(False, other)).to_be_seen_again == ("a",)


def test_nothing_is_begun_once_somebody_asked_to_stop():
    assert carried(a=(True, "done"), b=(False, "interrupted")).to_be_seen_again == ()


@pytest.mark.parametrize("status", BADLY)
def test_one_that_ended_badly_itself_is_not(status: HostStatus):
    assert carried(a=(True, status)).to_be_seen_again == ()


@pytest.mark.parametrize("other", ["done", "reverted", "unreachable"])
def test_the_others_alone_make_the_code_of_the_first_time(other: HostStatus):
    assert carried(a=(True, "held"), b=(False, other)).without(["a"]).code == EXIT_CODES[other]


def test_the_last_outcome_tells_all_hosts_and_the_worst_of_both_rounds():
    first = carried(a=(True, "done"), b=(False, "reverted"))
    last = carried(a=(False, "done")).with_(first.without(["a"]))
    assert set(last.outcome.hosts) == set(last.plan.hosts) == {"a", "b"}
    assert last.code == EXIT_CODES["reverted"]


def test_of_a_single_host_the_second_time_alone_counts():
    assert carried(a=(True, "held")).without(["a"]).code == OK
