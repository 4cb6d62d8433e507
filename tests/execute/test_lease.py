"""The lease, with the real script and real processes on a folder of this machine."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectionLost, Locked, OperationFailed
from cpudeploy.execute.fence import Fenced
from cpudeploy.execute.lease_break import break_lease, see_lease
from cpudeploy.types.safety import InFlight

from .keepers import Place, here

WaitFor = Callable[[Callable[[], bool]], None]
CHANGE = InFlight(deployment="rag", plan="p1", change="c1", subject='q\\n "x" é', holder="me")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


def race(place: Place, racers: int) -> list[str]:
    """So many keepers at once for one lease; what each was told first. All are gone afterwards."""
    keepers = [place.keeper(f"racer{number}") for number in range(racers)]
    for keeper in keepers:
        assert keeper.stdin
        keeper.stdin.write("go\n")
    told = [keeper.stdout.readline() for keeper in keepers if keeper.stdout]
    for keeper in keepers:
        keeper.communicate()
    return [line.split()[0] for line in told]


@pytest.mark.parametrize("round_", range(6))
def test_of_fifty_racers_one_has_the_lease(place: Place, round_: int) -> None:
    assert sorted(race(place, 50)) == ["held"] * 49 + ["taken"]
    assert not place.state.exists()


@pytest.mark.parametrize("round_", range(3))
def test_of_fifty_racers_for_an_expired_lease_one_has_it(place: Place, round_: int) -> None:
    place.stop_time()
    old = place.keeper("old")
    assert old.stdin and old.stdout
    old.stdin.write("go\n")
    assert old.stdout.readline().startswith("taken")
    place.set_time(2000)
    assert sorted(race(place, 50)) == ["held"] * 49 + ["taken"]
    old.stdin.write("renew\n")
    assert old.stdout.readline().startswith("lost")
    old.communicate()


def test_who_holds_it_is_named_and_since_when(place: Place) -> None:
    place.stop_time()
    lease = place.take(renew_s=999)
    place.set_time(1030)
    with pytest.raises(Locked, match=r"(?s)pid \d+\) has held this host for 30 s \(apply of rag.*unlock"):
        place.take()
    lease.release()
    place.take().release()


@pytest.mark.parametrize("ended", ["silence", "restart"])
def test_it_is_taken_over_when_its_time_is_over(place: Place, ended: str) -> None:
    place.stop_time()
    old = place.take(renew_s=999)
    place.set_time(1060)
    with pytest.raises(Locked, match="not heard of for 60 s"):
        place.take()
    if ended == "silence":
        place.set_time(1061)
    else:
        place.restart(78)
    new = place.take(command="destroy")
    with pytest.raises(Locked, match=r"was lost: .*\(destroy of rag\)"):
        old.renew()
    old.release()
    new.renew()
    audit = [json.loads(line) for line in (place.state / "audit.jsonl").read_text().splitlines()]
    assert [event["event"] for event in audit] == ["taken over"]


def test_renewed_it_does_not_expire(place: Place) -> None:
    place.stop_time()
    lease = place.take(renew_s=999)
    for time in (1050, 1100, 1150):
        place.set_time(time)
        lease.renew()
        with pytest.raises(Locked):
            place.take()


@pytest.mark.parametrize("times", ["", "rubbish", None])
def test_a_lease_written_into_a_power_cut_holds_nobody(place: Place, times: str | None) -> None:
    folder = place.state / "lease/t0"
    folder.mkdir(parents=True)
    if times is not None:
        (folder / "times").write_text(times)
    place.take().release()


def test_who_comes_while_a_dead_ones_guards_fire_waits_for_them(place: Place, wait_for: WaitFor) -> None:
    controller = place.controller(
        """
        from cpudeploy.execute.guard import arm_guard
        from cpudeploy.types import operation as op
        text = 'sleep 3; echo back >>"$out"'
        revert = op.Script(id="r", deadline_s=20, script="back", args={"out": str(place.folder / "slow.out")},
                           text=text, sha256="")
        arm_guard(fenced, op.GuardArm(id="a", deadline_s=20, guard="slow", after_s=30, revert=revert), lease, "c1",
                  **place.where)
        go()
        """
    )
    assert controller.stdout
    assert controller.stdout.readline() == "ready\n"
    controller.kill()
    controller.communicate()
    wait_for(lambda: any(place.state.glob("lease/*/leaving")))
    place.take()
    assert place.fired("slow") == 1


@pytest.mark.parametrize(
    "left",
    ["mkdir lease && : >lease/file", ": >lease", "ln -s /nowhere lease"],
)
def test_what_is_no_lease_is_told_and_can_be_broken(place: Place, left: str) -> None:
    place.state.mkdir()
    subprocess.run(["sh", "-c", left], cwd=place.state, check=True)
    with pytest.raises(
        OperationFailed, match=r"the lease is damaged: .*/lease is there and names nobody"
    ) as told:
        place.take()
    assert "cpudeploy unlock" in told.value.do
    seen = see_lease(here(), **place.where)
    assert seen is not None and seen.damaged
    assert break_lease(here(), seen, **place.where)
    place.take().release()


def test_a_lease_with_damaged_times_is_nobodys(place: Place) -> None:
    place.stop_time()
    old = place.take(renew_s=999)
    (place.state / f"lease/{old.token}/times").write_text("08 a[ 1;2 boot.77\n")
    seen = see_lease(here(), **place.where)
    assert seen is not None and seen.lease.expired
    place.take().release()


def test_unlock_breaks_the_lease_that_was_seen_and_no_other(place: Place) -> None:
    assert see_lease(here(), **place.where) is None
    first = place.take()
    seen = see_lease(here(), **place.where)
    assert seen is not None
    assert (seen.lease.command, seen.lease.deployment, seen.lease.expired) == ("apply", "rag", False)
    assert break_lease(here(), seen, **place.where)
    second = place.take()
    assert not break_lease(here(), seen, **place.where)
    with pytest.raises(Locked):
        first.renew()
    second.renew()


def test_unlocked_with_nobody_after_it_is_said_so(place: Place) -> None:
    lease = place.take()
    seen = see_lease(here(), **place.where)
    assert seen is not None
    break_lease(here(), seen, **place.where)
    with pytest.raises(Locked, match="somebody unlocked it"):
        lease.begin(CHANGE)
    assert not (place.state / "inflight.json").exists()


def test_the_journal_the_audit_and_the_used_plan(place: Place) -> None:
    lease = place.take()
    lease.begin(CHANGE)
    file = place.state / "inflight.json"
    assert json.loads(file.read_text())["subject"] == CHANGE.subject
    lease.at(InFlight(**{**{f: getattr(CHANGE, f) for f in CHANGE.__struct_fields__}, "operation": "op1"}))
    lease.renew()
    assert json.loads(file.read_text())["operation"] == "op1"
    lease.end("c1", "done")
    assert not file.exists()
    lease.finish("failed", used=False)
    assert not (place.state / "rag/plans/p1").exists()
    lease.finish("done", used=True)
    assert (place.state / "rag/plans/p1").exists()
    audit = [json.loads(line) for line in (place.state / "audit.jsonl").read_text().splitlines()]
    assert [(event["event"], event.get("status")) for event in audit] == [
        ("begin", None),
        ("end", "done"),
        ("finish", "failed"),
        ("finish", "done"),
    ]
    assert {event["plan"] for event in audit} == {"p1"}
    assert all(event["at"].endswith("Z") and event["by"] == lease.about.holder for event in audit)


def test_the_audit_is_bounded(place: Place) -> None:
    lease = place.take()
    log = place.state / "audit.jsonl"
    log.write_text("x" * 1_048_577)
    lease.finish("done", used=False)
    assert len(log.read_text().splitlines()) == 1
    assert (place.state / "audit.jsonl.1").stat().st_size == 1_048_577


def test_a_keeper_that_was_killed_ends_the_lease(place: Place, wait_for: WaitFor) -> None:
    keeper = place.keeper("k")
    assert keeper.stdin and keeper.stdout
    keeper.stdin.write("go\n")
    assert keeper.stdout.readline().startswith("taken")
    keeper.terminate()
    keeper.communicate()
    assert not place.state.exists()


def test_a_channel_that_ended_is_no_lease(place: Place) -> None:
    lease = place.take()
    lease.close()
    with pytest.raises(ConnectionLost):
        lease.renew()
    place.take().release()


def test_behind_the_fence_a_script_is_what_it_was(place: Place) -> None:
    fenced = Fenced(here(), place.take())
    done = fenced.run(
        'cat; echo "$a" >&2; trap "echo bye" EXIT; exit 7', args={"a": "it's"}, stdin=b"in\n", deadline_s=20
    )
    assert (done.rc, done.stdout, done.stderr) == (7, b"in\nbye\n", "it's\n")
    file = place.folder / "put"
    fenced.put(str(file), b"text", mode="0600", deadline_s=20)
    assert file.read_bytes() == b"text"
    stream = fenced.stream("cat", deadline_s=20)
    stream.write(b"ping", 20)
    assert stream.read(10, 20) == b"ping"
    stream.close()


def test_without_the_lease_no_script_begins(place: Place) -> None:
    bare, lease = here(), place.take(renew_s=999)
    fenced = Fenced(bare, lease)
    seen = see_lease(bare, **place.where)
    assert seen is not None
    break_lease(bare, seen, **place.where)
    place.take(command="destroy")
    file = place.folder / "file"
    with pytest.raises(Locked, match="destroy of rag"):
        fenced.run('echo x >"$file"', args={"file": str(file)}, deadline_s=20)
    with pytest.raises(Locked):
        fenced.put(str(file), b"x", mode="0600", deadline_s=20)
    with pytest.raises(Locked):
        fenced.stream('echo x >"$file"', args={"file": str(file)}, deadline_s=20)
    assert not file.exists()


@pytest.mark.parametrize("after", ["the check", "the start"])
def test_without_the_lease_a_stream_ends(place: Place, after: str) -> None:
    bare, lease = here(), place.take(renew_s=999)
    fenced = Fenced(bare, lease)
    seen = see_lease(bare, **place.where)
    assert seen is not None
    if after == "the check":
        # Nobody here knows yet that it is gone: what says so is the host.
        break_lease(bare, seen, **place.where)
        stream = fenced.stream("cat", deadline_s=20)
    else:
        stream = fenced.stream("echo begun; exec cat", deadline_s=20)
        assert stream.read(100, 20) == b"begun\n"
        break_lease(bare, seen, **place.where)
    with pytest.raises(Locked):
        stream.read(100, 20)
    stream.close()


def test_without_the_lease_a_running_script_ends_and_may_tidy_up(place: Place) -> None:
    bare, lease = here(), place.take(renew_s=999)
    file = place.folder / "aside"
    seen = see_lease(bare, **place.where)
    assert seen is not None

    def begun(_line: str) -> None:
        break_lease(bare, seen, **place.where)

    text = "trap 'rm -f \"$file\"' EXIT; trap 'exit 1' TERM; : >\"$file\"; echo begun; sleep 100 & wait"
    with pytest.raises(Locked):
        Fenced(bare, lease).run(text, args={"file": str(file)}, deadline_s=60, on_line=begun)
    assert not file.exists()


def test_a_controller_that_slept_changes_nothing(place: Place, wait_for: WaitFor) -> None:
    """Stopped for longer than its lease lives, and woken when another has it: real processes, real signals."""
    controller = place.controller(
        """
        stream = fenced.stream('while read -r line; do echo "$line" >>"$file"; echo did; done',
                               args={"file": str(place.folder / "streamed")}, deadline_s=20)
        stream.write(b"before\\n", 20)
        stream.read(100, 20)
        go()
        def written():
            stream.write(b"after\\n", 20)
            stream.read(100, 20)
        for work in (
            lambda: fenced.put(str(place.folder / "put"), b"x", mode="0600", deadline_s=20),
            lambda: fenced.run('echo x >"$file"', args={"file": str(place.folder / "ran")}, deadline_s=20),
            written,
            lambda: place.arm(fenced, lease),
            lambda: lease.finish("done", used=True),
        ):
            try:
                work()
                print("changed something", flush=True)
            except CpudeployError as error:
                print(type(error).__name__, flush=True)
        """
    )
    assert controller.stdin and controller.stdout
    assert controller.stdout.readline() == "ready\n"
    controller.send_signal(signal.SIGSTOP)

    def taken_over() -> bool:
        try:
            place.take(command="destroy")
        except Locked:
            return False
        return True

    wait_for(taken_over)
    controller.send_signal(signal.SIGCONT)
    out, _ = controller.communicate("go\n", timeout=60)
    assert out.split() == ["Locked"] * 5
    assert (place.folder / "streamed").read_text() == "before\n"
    assert sorted(path.name for path in place.folder.iterdir()) == ["state", "streamed"]
    assert not (place.state / "guard").exists()
    assert not (place.state / "rag").exists()


def test_killed_it_leaves_the_host_free_and_put_back(place: Place, wait_for: WaitFor) -> None:
    controller = place.controller('place.arm(fenced, lease)\nplace.arm(fenced, lease, "g2")\ngo()\n')
    assert controller.stdout
    assert controller.stdout.readline() == "ready\n"
    assert place.fired() == 0
    controller.kill()
    controller.communicate()
    wait_for(lambda: not (place.state / "lease").exists())
    assert (place.fired("g1"), place.fired("g2")) == (1, 1)
    new = place.take()
    assert place.settle(Fenced(here(), new)) == {"g1": "0", "g2": "0"}
    assert not (place.state / "guard").exists()
    assert place.fired() == 1


def test_where_nothing_can_be_written_it_is_said_why(place: Place) -> None:
    place.state.write_text("a file")
    with pytest.raises(OperationFailed, match=r"can't be taken: .*state.*Not a directory"):
        place.take()
