"""Leases of a fleet, and what an apply does about what another left in the middle, on simulated hosts."""

from __future__ import annotations

import contextlib
import threading

import msgspec
import pytest

from cpudeploy.errors import ConnectionLost, EngineError, Locked
from cpudeploy.execute.change import Tell
from cpudeploy.execute.failure import ModelNotServing
from cpudeploy.execute.locking import lock_all
from cpudeploy.execute.runner import execute
from cpudeploy.report.outcome_text import exit_code
from cpudeploy.types import operation as op
from cpudeploy.types.event import Event, Note
from cpudeploy.types.outcome import Failure, Outcome
from cpudeploy.types.plan import Plan
from tests.execute.plans import KEPT, NAME, NEW, OLD, plan_of, replace, write_file
from tests.factories import facts
from tests.simulated import Killed, SimulatedHost


def apply(
    plan: Plan, hosts: dict[str, SimulatedHost], tell: Tell = lambda event: None, **options: bool
) -> Outcome:
    return execute(plan, lambda host: hosts[host.host.name], tell, **options)


def fleet(*names: str) -> dict[str, SimulatedHost]:
    return {name: SimulatedHost(facts(name)) for name in names}


def taken(host: SimulatedHost, holder: str = "ops@other (pid 7)") -> None:
    host.lock("theirs")
    host.state["lease"]["holder"] = holder


class Held(SimulatedHost):
    """A host that another holds, told as the real one tells it."""

    def lock(self, plan: str) -> None:
        raise Locked("ops@other (pid 7) has held this host for 3 s", where="h1", do="wait until it is done")


class Shared(SimulatedHost):
    """A host that two appliers hold on to at the same time, each with a token of its own."""

    def __init__(self, door: dict[str, str], name: str, who: str) -> None:
        super().__init__(facts(name))
        self.door, self.name, self.who = door, name, who

    def lock(self, plan: str) -> None:
        if self.door.setdefault(self.name, self.who) != self.who:
            raise Locked(f"{self.door[self.name]} is changing it")

    def unlock(self) -> None:
        if self.door.get(self.name) == self.who:
            del self.door[self.name]


def test_what_ends_a_host_names_it_no_second_time() -> None:
    outcome = apply(plan_of(h1=[write_file("/etc/x")]), {"h1": Held(facts("h1"))})
    assert outcome.hosts["h1"].error == "ops@other (pid 7) has held this host for 3 s (wait until it is done)"


def test_where_one_host_is_locked_none_is_touched_and_all_say_by_whom() -> None:
    hosts = fleet("h1", "h2", "h3")
    taken(hosts["h2"])
    told: list[Event] = []
    outcome = apply(plan_of(**{name: [write_file("/etc/x")] for name in hosts}), hosts, told.append)
    assert not [event for event in told if isinstance(event, Note)]
    assert {host.status for host in outcome.hosts.values()} == {"locked"}
    assert all("ops@other" in host.error for host in outcome.hosts.values())
    assert exit_code(outcome) == 5
    assert not any(host.log for host in hosts.values())
    assert hosts["h1"].state["lease"] is None and hosts["h3"].state["lease"] is None


@pytest.mark.parametrize(
    ("error", "status"), [(ConnectionLost("gone"), "unreachable"), (OSError("a bug"), "failed")]
)
def test_a_host_that_is_gone_while_it_is_locked_does_not_keep_the_others_from_working(
    error: Exception, status: str
) -> None:
    hosts = fleet("h1", "h2")

    def gone(plan: str) -> None:
        raise error

    hosts["h1"].lock = gone  # type: ignore[method-assign]
    outcome = apply(plan_of(**{name: [write_file("/etc/x")] for name in hosts}), hosts)
    assert outcome.hosts["h1"].status == status
    assert outcome.hosts["h2"].status == "done"


def test_nobody_is_told_that_the_end_of_a_host_that_is_lost_was_not_noted() -> None:
    hosts = fleet("h1")

    def cut() -> None:
        hosts["h1"].unlock()
        raise ConnectionLost("cut")

    hosts["h1"].before["/etc/x.1"] = cut
    told: list[Event] = []
    outcome = apply(plan_of(h1=[write_file("/etc/x")]), hosts, told.append)
    assert outcome.hosts["h1"].status == "unreachable"
    assert not [event for event in told if isinstance(event, Note)]


@pytest.mark.parametrize("round", range(6))
def test_of_two_that_want_overlapping_fleets_exactly_one_gets_all_of_its_own(round: int) -> None:
    door: dict[str, str] = {}
    wants = {"a": ("h1", "h2", "h3", "h4"), "b": ("h3", "h2", "h5")}
    got: dict[str, bool] = {}
    start = threading.Barrier(2)

    def run(who: str) -> None:
        targets = {name: Shared(door, name, who) for name in wants[who]}
        start.wait()
        got[who] = not lock_all(targets, "plan", parallel=4, patience_s=1)

    threads = [threading.Thread(target=run, args=(who,)) for who in wants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got.values()) == [False, True]
    winner = next(who for who, won in got.items() if won)
    assert set(door) == set(wants[winner]) and set(door.values()) == {winner}


def test_the_lease_is_given_back_whatever_became_of_the_plan() -> None:
    hosts = fleet("h1")
    hosts["h1"].fail["/etc/x.1"] = ConnectionLost("cut")
    apply(plan_of(h1=[write_file("/etc/x")]), hosts)
    assert hosts["h1"].state["lease"] is None


def served(host: SimulatedHost) -> str:
    return str(host.container(NAME)["mark"]["release"])


@pytest.mark.parametrize("kept", range(1, 10))
def test_the_same_plan_goes_on_after_it_died_anywhere_in_the_middle(kept: int) -> None:
    """In mid-change neither fingerprint holds: what was in flight is undone first, then done again."""
    hosts = fleet("h1")
    host = hosts["h1"]
    host.add(NAME, OLD)
    plan = plan_of(h1=[replace()])
    host.die_after = kept
    with contextlib.suppress(Killed):
        apply(plan, hosts)
    host.die_after = None
    host.die()
    outcome = apply(plan, hosts)
    assert outcome.hosts["h1"].status in ("done", "unchanged"), kept
    assert served(host) == NEW
    assert KEPT not in host.state["containers"]
    assert host.state["in_flight"] is None


def test_what_could_not_be_undone_is_undone_by_the_next_apply_of_the_same_plan() -> None:
    hosts = fleet("h1")
    host = hosts["h1"]
    host.add(NAME, OLD)
    plan = plan_of(h1=[replace()])
    host.die_after = 5
    with contextlib.suppress(Killed):
        apply(plan, hosts)
    host.die_after = None
    host.die()
    host.fail["undo.rename"] = EngineError("the engine says no")
    assert apply(plan, hosts).hosts["h1"].status == "stale"
    del host.fail["undo.rename"]
    assert apply(plan, hosts).hosts["h1"].status == "done"
    assert served(host) == NEW


def test_another_plan_that_finds_the_host_in_the_middle_is_stale_and_leaves_it_settled() -> None:
    hosts = fleet("h1")
    host = hosts["h1"]
    host.add(NAME, OLD)
    host.die_after = 5
    with contextlib.suppress(Killed):
        apply(plan_of(h1=[replace()]), hosts)
    host.die_after = None
    host.die()
    other = msgspec.structs.replace(plan_of(h1=[replace()]), origin="elsewhere")
    outcome = apply(other, hosts)
    assert outcome.hosts["h1"].status == "stale"
    assert host.state["in_flight"] is None


def test_a_saved_plan_is_carried_out_once_and_a_retry_does_what_is_left() -> None:
    hosts = fleet("h1", "h2")
    plan = msgspec.structs.replace(
        plan_of(h1=[write_file("/etc/x")], h2=[write_file("/etc/x")]), saved="2026-11-30T10:00:00Z"
    )
    hosts["h2"].fail["/etc/x.1"] = ConnectionLost("cut")
    assert exit_code(apply(plan, hosts)) == 4
    del hosts["h2"].fail["/etc/x.1"]
    again = apply(plan, hosts)
    assert {name: host.status for name, host in again.hosts.items()} == {"h1": "used", "h2": "done"}
    assert exit_code(again) == 0
    hosts["h1"].state["files"].clear()
    last = apply(plan, hosts)
    assert exit_code(last) == 6
    assert not hosts["h1"].state["files"]


def with_hold() -> op.HoldBack:
    return op.HoldBack(
        id="hold", deadline_s=5, deployment="rag", container=NAME, release=NEW, wanted="f" * 64
    )


def test_what_failed_its_gate_is_held_and_the_same_plan_does_not_try_it_again() -> None:
    hosts = fleet("h1")
    host = hosts["h1"]
    host.add(NAME, OLD)
    host.fail["wait"] = ModelNotServing(Failure(what="stopped with SIGILL", cause="no AVX-512"))
    plan = plan_of(h1=[msgspec.structs.replace(replace(), hold=with_hold())])
    assert apply(plan, hosts).hosts["h1"].status == "reverted"
    assert host.facts().held["rag"][NAME].what == "stopped with SIGILL"
    done = len(host.log)
    again = apply(plan, hosts)
    assert again.hosts["h1"].status == "held"
    assert exit_code(again) == 1
    assert len(host.log) == done
    del host.fail["wait"]
    assert apply(plan, hosts, retry=True).hosts["h1"].status == "done"


@pytest.mark.parametrize("error", [ConnectionLost("cut"), Locked("another's now")])
def test_what_is_nobodys_fault_holds_nothing(error: Exception) -> None:
    hosts = fleet("h1")
    host = hosts["h1"]
    host.add(NAME, OLD)
    host.fail["wait"] = error  # type: ignore[assignment]
    apply(plan_of(h1=[msgspec.structs.replace(replace(), hold=with_hold())]), hosts)
    assert not host.facts().held
