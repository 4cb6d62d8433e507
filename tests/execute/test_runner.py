"""Plans carried out on simulated hosts: order, resuming, failures, interrupts, exit codes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection

import msgspec
import pytest

from cpudeploy.errors import ConnectError, ConnectionLost, EngineError, Locked, OperationFailed
from cpudeploy.execute.failure import ModelNotServing
from cpudeploy.execute.runner import execute
from cpudeploy.report.outcome_text import exit_code, outcome_data
from cpudeploy.report.written import plan_data
from cpudeploy.types import event as ev
from cpudeploy.types import operation as op
from cpudeploy.types.base import to_data
from cpudeploy.types.outcome import Failure, HostOutcome, Outcome
from cpudeploy.types.plan import Change, Fingerprint, HostPlan, Plan
from tests.execute.plans import KEPT, NAME, NEW, OLD, change, engine, fetch_file, plan_of, replace, write_file
from tests.factories import facts
from tests.schemas import check_document
from tests.simulated import SimulatedHost


class Fleet:
    """Simulated hosts and everything told while a plan ran on them."""

    def __init__(self, *names: str) -> None:
        self.hosts = {name: SimulatedHost(facts(name)) for name in names}
        self.events: list[ev.Event] = []
        self.unreachable: set[str] = set()

    def apply(self, plan: Plan, *, only: Collection[str] | None = None) -> Outcome:
        outcome = execute(plan, self._open, self.events.append, only=only)
        check_document("plan", plan_data(plan))
        check_document("outcome", outcome_data(outcome, plan))
        for event in self.events:
            check_document("event", to_data(event))
        return outcome

    def _open(self, plan: HostPlan) -> SimulatedHost:
        if plan.host.name in self.unreachable:
            raise ConnectError("no route", where=plan.host.name)
        return self.hosts[plan.host.name]

    def told(self, kind: type) -> list[ev.Event]:
        return [event for event in self.events if isinstance(event, kind)]


def statuses(outcome: HostOutcome) -> dict[str, str]:
    return {change.change: change.status for change in outcome.changes}


@pytest.fixture
def one() -> Fleet:
    return Fleet("h1")


@pytest.fixture
def running(one: Fleet) -> Fleet:
    """A host on which the old version serves."""
    one.hosts["h1"].add(NAME, OLD)
    return one


def test_changes_run_in_the_order_of_phases(running: Fleet) -> None:
    outcome = running.apply(plan_of(h1=[replace(), fetch_file("a"), write_file("/etc/x")]))
    log = running.hosts["h1"].log
    assert [entry for entry in log if entry in ("/etc/x.1", "fetch-a.1", "record")] == [
        "/etc/x.1",
        "fetch-a.1",
        "record",
    ]
    assert outcome.hosts["h1"].status == "done"
    assert exit_code(outcome) == 0
    assert running.hosts["h1"].closed.is_set()


def test_outcome_lists_changes_in_the_order_of_the_plan(running: Fleet) -> None:
    outcome = running.apply(plan_of(h1=[replace(), write_file("/etc/x")]))
    assert list(statuses(outcome.hosts["h1"])) == ["qwen", "/etc/x"]


def test_a_second_run_of_the_same_plan_does_nothing(running: Fleet) -> None:
    plan = plan_of(h1=[replace(), fetch_file("a"), write_file("/etc/x")])
    running.apply(plan)
    done = list(running.hosts["h1"].log)
    again = running.apply(plan)
    assert running.hosts["h1"].log == done
    assert set(statuses(again.hosts["h1"]).values()) == {"already"}
    assert again.hosts["h1"].status == "unchanged"


def test_a_change_without_an_after_is_done_every_time(one: Fleet) -> None:
    plan = plan_of(h1=[change("note", "provision", [op.GuardCommit(id="x", deadline_s=1, guard="g")])])
    one.apply(plan)
    one.apply(plan)
    assert one.hosts["h1"].log == ["x", "x"]


def test_no_host_replaces_before_all_have_fetched() -> None:
    fleet = Fleet("fast", "slow")
    for host in fleet.hosts.values():
        host.add(NAME, OLD)
    order: list[str] = []
    fleet.hosts["fast"].before["record"] = lambda: order.append("fast replaces")
    fast_fetched = threading.Event()
    fleet.hosts["fast"].before["fetch-a.1"] = fast_fetched.set

    def slow_fetch() -> None:
        fast_fetched.wait(10)
        order.append("slow fetches")

    fleet.hosts["slow"].before["fetch-a.1"] = slow_fetch
    fleet.apply(plan_of(fast=[fetch_file("a"), replace()], slow=[fetch_file("a"), replace()]))
    assert order == ["slow fetches", "fast replaces"]


def test_hosts_are_worked_on_side_by_side() -> None:
    fleet = Fleet("a", "b")
    both = threading.Barrier(2)
    for host in fleet.hosts.values():
        host.before["/etc/x.1"] = lambda: both.wait(10) and None
    outcome = fleet.apply(plan_of(a=[write_file("/etc/x")], b=[write_file("/etc/x")]))
    assert exit_code(outcome) == 0


def test_a_host_without_changes_is_not_even_connected_to(one: Fleet) -> None:
    outcome = one.apply(plan_of(h1=[]))
    assert outcome.hosts["h1"].status == "unchanged"
    assert one.hosts["h1"].probes == 0


def test_a_stale_plan_changes_nothing_and_tells_wanted_and_found(running: Fleet) -> None:
    running.hosts["h1"].state["containers"][NAME]["mark"]["release"] = "0009-other"
    outcome = running.apply(plan_of(h1=[write_file("/etc/x"), replace()]))
    assert running.hosts["h1"].log == []
    host = outcome.hosts["h1"]
    assert host.status == "stale"
    assert f"container {NAME}: release was {OLD}, is 0009-other" in host.error
    assert "plan again" in host.error
    assert exit_code(outcome) == 6


def test_a_quantity_counts_only_when_its_turn_comes(one: Fleet) -> None:
    host = one.hosts["h1"]
    host.state["memory"]["available"] = 1
    host.before["/etc/x.1"] = lambda: host.state["memory"].update(available=100)
    needs = change(
        "needs", "replace", [], before=Fingerprint(at_least={"/memory/available": 50}), subject="needs"
    )
    assert one.apply(plan_of(h1=[write_file("/etc/x"), needs])).hosts["h1"].status == "done"
    host.state["memory"]["available"] = 1
    again = one.apply(plan_of(h1=[needs]))
    assert again.hosts["h1"].status == "stale"
    assert "memory: 1 B available, 50 B are needed" in again.hosts["h1"].error


@pytest.mark.parametrize("operation", [each.id for each in replace().operations])
def test_a_failure_anywhere_in_a_replace_brings_the_old_version_back(running: Fleet, operation: str) -> None:
    host = running.hosts["h1"]
    host.fail[operation] = OperationFailed("broken")
    outcome = running.apply(plan_of(h1=[replace()]))
    assert list(host.state["containers"]) == [NAME]
    container = host.state["containers"][NAME]
    assert (container["running"], container["mark"]["release"]) == (True, OLD)
    (result,) = outcome.hosts["h1"].changes
    assert result.status == "reverted"
    assert result.failure and result.failure.what == "broken"
    assert result.failure.serving == "the old version was started again"
    assert exit_code(outcome) == 7


def test_everything_the_gate_saw_is_in_the_outcome(running: Fleet) -> None:
    failure = Failure(what="stopped with SIGILL", exit_code=132, log=("a", "b"))
    running.hosts["h1"].fail["wait"] = ModelNotServing(failure)
    (result,) = running.apply(plan_of(h1=[replace()])).hosts["h1"].changes
    assert result.failure
    assert (result.failure.exit_code, result.failure.log) == (132, ("a", "b"))


def test_a_failure_without_revert_is_a_failure(running: Fleet) -> None:
    running.hosts["h1"].fail["create"] = OperationFailed("broken")
    outcome = running.apply(plan_of(h1=[replace(revert=False)]))
    assert outcome.hosts["h1"].status == "failed"
    assert exit_code(outcome) == 3


def test_a_revert_that_fails_goes_on_and_is_told(running: Fleet) -> None:
    host = running.hosts["h1"]
    host.fail["wait"] = OperationFailed("broken")
    host.fail["undo.remove"] = EngineError("busy")
    outcome = running.apply(plan_of(h1=[replace()]))
    assert outcome.hosts["h1"].status == "failed"
    assert [entry for entry in host.log if entry.startswith("undo")] == [
        "undo.remove",
        "undo.rename",
        "undo.start",
    ]
    assert any("could not revert" in event.text for event in running.told(ev.Note))  # type: ignore[attr-defined]


def test_a_failed_provision_skips_the_rest_of_that_host_only() -> None:
    fleet = Fleet("good", "bad")
    for host in fleet.hosts.values():
        host.add(NAME, OLD)
    fleet.hosts["bad"].fail["/etc/x.1"] = OperationFailed("no")
    changes = [write_file("/etc/x"), write_file("/etc/y"), fetch_file("a"), replace()]
    outcome = fleet.apply(plan_of(good=changes, bad=changes))
    assert statuses(outcome.hosts["bad"]) == {
        "/etc/x": "failed",
        "/etc/y": "skipped",
        "fetch-a": "skipped",
        "qwen": "skipped",
    }
    assert outcome.hosts["good"].status == "done"
    assert exit_code(outcome) == 3


def test_one_model_that_fails_does_not_keep_another_from_being_replaced(running: Fleet) -> None:
    running.hosts["h1"].fail["wait"] = OperationFailed("broken")
    outcome = running.apply(plan_of(h1=[replace(), write_file("/etc/other", "replace")]))
    assert statuses(outcome.hosts["h1"]) == {"qwen": "reverted", "/etc/other": "done"}
    assert outcome.hosts["h1"].status == "reverted"


def test_an_unreachable_host_does_not_keep_others_from_working() -> None:
    fleet = Fleet("up", "down")
    fleet.unreachable.add("down")
    outcome = fleet.apply(plan_of(up=[write_file("/etc/x")], down=[write_file("/etc/x")]))
    assert outcome.hosts["down"].status == "unreachable"
    assert "no route" in outcome.hosts["down"].error
    assert outcome.hosts["up"].status == "done"
    assert exit_code(outcome) == 4


@pytest.mark.parametrize(
    ("error", "status"), [(ConnectionLost("gone"), "unreachable"), (Locked("held by ann"), "locked")]
)
def test_what_takes_the_host_away_ends_it_without_a_revert(
    running: Fleet, error: ConnectionLost | Locked, status: str
) -> None:
    running.hosts["h1"].fail["create"] = error
    outcome = running.apply(plan_of(h1=[replace(), write_file("/etc/other", "replace")]))
    assert outcome.hosts["h1"].status == status
    assert statuses(outcome.hosts["h1"]) == {"qwen": "failed", "/etc/other": "skipped"}
    assert not any(entry.startswith("undo") for entry in running.hosts["h1"].log)


def test_a_plan_without_facts_is_not_applied(one: Fleet) -> None:
    plan = plan_of(h1=[])
    host = plan.hosts["h1"]
    unknown = HostPlan(host=host.host, headline="", changes=(), unknown="no facts recorded")
    outcome = one.apply(Plan(deployment="rag", base="/", origin="", hosts={"h1": unknown}))
    assert outcome.hosts["h1"].status == "failed"
    assert "no facts recorded" in outcome.hosts["h1"].error


def test_a_host_that_could_not_be_planned_does_not_keep_others_from_working() -> None:
    fleet = Fleet("known", "unknown")
    plan = plan_of(known=[write_file("/etc/x")], unknown=[])
    unknown = HostPlan(
        host=plan.hosts["unknown"].host, headline="", changes=(), unknown="listing images failed"
    )
    hosts = {"known": plan.hosts["known"], "unknown": unknown}
    outcome = fleet.apply(Plan(deployment="rag", base="/", origin="", hosts=hosts))
    assert outcome.hosts["known"].status == "done"
    assert outcome.hosts["unknown"].status == "failed"
    assert outcome.hosts["unknown"].error == "not planned: listing images failed"
    assert fleet.hosts["unknown"].probes == 0
    assert exit_code(outcome) == 3


@pytest.mark.parametrize("because", ["destroy", "retired"])
def test_what_a_deployment_is_found_by_stays_when_a_part_of_it_could_not_be_removed(
    running: Fleet, because: str
) -> None:
    host = running.hosts["h1"]
    host.add("rag_other_0", OLD)
    host.fail[f"remove:{NAME}"] = EngineError("busy")
    changes = [remove("rag_other_0"), remove(NAME), write_file("/etc/last", "replace")]
    plan = plan_of(h1=changes)
    one = plan.hosts["h1"]
    gone = msgspec.structs.replace(one, host=msgspec.structs.replace(one.host, retired=True))
    if because == "destroy":
        plan = msgspec.structs.replace(plan, destroy=True)
    else:
        plan = msgspec.structs.replace(plan, hosts={"h1": gone})
    outcome = running.apply(plan)
    assert statuses(outcome.hosts["h1"]) == {
        "rag_other_0": "done",
        NAME: "failed",
        "/etc/last": "skipped",
    }
    assert outcome.hosts["h1"].status == "failed"
    assert exit_code(outcome) == 3


def remove(name: str) -> Change:
    """A container taken away for good."""
    operation = engine(f"remove:{name}", op.RemoveContainer(container=name))
    after = Fingerprint(equals={f"/containers/{name}": None})
    return change(name, "replace", [operation], action="remove", after=after)


def test_progress_that_can_not_be_shown_changes_nothing_and_is_told_once(running: Fleet) -> None:
    def broken(event: ev.Event) -> None:
        raise UnicodeEncodeError("gbk", "token hunter2", 0, 1, "illegal multibyte sequence")

    host = running.hosts["h1"]
    outcome = execute(plan_of(h1=[write_file("/etc/x"), replace()]), lambda _: host, broken)
    assert outcome.hosts["h1"].status == "done"
    assert host.state["containers"][NAME]["mark"]["release"] == NEW
    (warning,) = outcome.warnings
    assert "UnicodeEncodeError" in warning
    assert "hunter2" not in warning


def test_a_bug_is_told_without_what_it_carried(one: Fleet) -> None:
    def bug() -> None:
        raise RuntimeError("token hunter2")

    one.hosts["h1"].before["/etc/x.1"] = bug
    (result,) = one.apply(plan_of(h1=[write_file("/etc/x")])).hosts["h1"].changes
    assert result.failure and "RuntimeError" in result.failure.what
    assert "hunter2" not in str(result)


def test_a_host_that_is_not_as_planned_afterwards_is_told(one: Fleet) -> None:
    wish = Fingerprint(equals={"/files/~1etc~1y/size": 1})
    one.apply(plan_of(h1=[change("odd", "provision", [], after=wish)]))
    notes = [event.text for event in one.told(ev.Note)]  # type: ignore[attr-defined]
    assert notes == ["done, but the host is not as planned: /etc/y: size should be 1 B, is not there"]


def test_every_event_names_its_host_and_every_change_its_end(running: Fleet) -> None:
    running.apply(plan_of(h1=[write_file("/etc/x"), replace()]))
    assert {event.host for event in running.events} == {"h1"}
    assert all(event.change for event in running.told(ev.Progress))  # type: ignore[attr-defined]
    ended = [event.change for event in running.told(ev.ChangeFinished)]  # type: ignore[attr-defined]
    assert ended == ["/etc/x", "qwen"]
    assert isinstance(running.events[0], ev.HostStarted)
    assert isinstance(running.events[-1], ev.HostFinished)


def _ctrl_c(seen: Callable[[], bool]) -> Callable[[], None]:
    """Sends this process SIGINT and returns when it has been taken note of."""

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            if seen():
                return
            threading.Event().wait(0.005)

    return press


def _handled_after(times: int) -> Callable[[], bool]:
    """The main thread has run the handler: simulated by giving it time, a handler leaves no other trace."""
    waits = 20 * times

    def seen() -> bool:
        nonlocal waits
        waits -= 1
        return waits <= 0

    return seen


def test_ctrl_c_finishes_the_running_operation_and_stops(one: Fleet) -> None:
    host = one.hosts["h1"]
    host.before["/etc/x.1"] = _ctrl_c(_handled_after(1))
    outcome = one.apply(plan_of(h1=[write_file("/etc/x"), write_file("/etc/y")]))
    assert "/etc/x" in host.state["files"]
    assert statuses(outcome.hosts["h1"]) == {"/etc/x": "done", "/etc/y": "skipped"}
    assert outcome.hosts["h1"].status == "interrupted"
    assert exit_code(outcome) == 130
    assert one.told(ev.StopAsked) == [ev.StopAsked()]


def test_ctrl_c_in_a_replace_leaves_the_old_version_running(running: Fleet) -> None:
    host = running.hosts["h1"]
    host.before["start"] = _ctrl_c(_handled_after(1))
    outcome = running.apply(plan_of(h1=[replace(), write_file("/etc/other", "replace")]))
    assert list(host.state["containers"]) == [NAME]
    assert host.state["containers"][NAME]["mark"]["release"] == OLD
    assert statuses(outcome.hosts["h1"]) == {"qwen": "reverted", "/etc/other": "skipped"}
    assert outcome.hosts["h1"].status == "interrupted"


def test_ctrl_c_ends_a_download_at_its_next_sign_of_life(one: Fleet) -> None:
    host = one.hosts["h1"]
    host.before["fetch-a.1"] = _ctrl_c(_handled_after(1))
    outcome = one.apply(plan_of(h1=[fetch_file("a")]))
    assert host.state["weights"]["blobs"] == {}
    assert outcome.hosts["h1"].status == "interrupted"


def test_a_second_ctrl_c_closes_the_connections_at_once(one: Fleet) -> None:
    host = one.hosts["h1"]

    def hang() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        assert host.closed.wait(10)
        raise ConnectionLost("closed")

    host.before["/etc/x.1"] = hang
    outcome = one.apply(plan_of(h1=[write_file("/etc/x")]))
    assert outcome.hosts["h1"].status == "interrupted"
    assert set(one.told(ev.StopAsked)) == {ev.StopAsked(), ev.StopAsked(now=True)}


def test_what_ctrl_c_did_before_is_back_afterwards(one: Fleet) -> None:
    before = signal.getsignal(signal.SIGINT)
    one.apply(plan_of(h1=[write_file("/etc/x")]))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_replaced_version_is_gone_and_the_new_one_stays_up(running: Fleet) -> None:
    running.apply(plan_of(h1=[replace()]))
    containers = running.hosts["h1"].state["containers"]
    assert KEPT not in containers
    assert containers[NAME]["mark"]["release"] == NEW
    assert containers[NAME]["restart_policy"] == "unless-stopped"
