"""Guards, with the real scripts on a folder of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectionLost, Locked, OperationFailed
from cpudeploy.execute.fence import Fenced
from cpudeploy.execute.lease import Lease, script
from cpudeploy.transport import Connection
from cpudeploy.transport.shell import assignments

from .keepers import Place, here

WaitFor = Callable[[Callable[[], bool]], None]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture
def lease(place: Place) -> Lease:
    return place.take(renew_s=1)


@pytest.fixture
def fenced(lease: Lease) -> Connection:
    return Fenced(here(), lease)


def test_committed_it_never_fires(place: Place, lease: Lease, fenced: Connection) -> None:
    place.arm(fenced, lease)
    place.commit(fenced)
    lease.release()
    assert place.fired() == 0
    assert not (place.state / "guard").exists()


def test_renewed_it_waits_and_not_renewed_it_fires(place: Place, wait_for: WaitFor) -> None:
    place.stop_time()
    lease = place.take(renew_s=999)
    fenced = Fenced(here(), lease)
    place.arm(fenced, lease, after_s=30)
    for time in (1029, 1058, 1087):
        place.set_time(time)
        lease.renew()
    assert place.fired() == 0
    place.set_time(1117)
    wait_for(lambda: place.fired() == 1)
    # Nobody goes on from what was put back.
    with pytest.raises(Locked, match="a guard put back what it guards"):
        place.commit(fenced)
    new = place.take()
    assert place.settle(Fenced(here(), new)) == {"g1": "0"}
    assert place.fired() == 1


def test_what_fired_is_not_committed(place: Place, lease: Lease, fenced: Connection) -> None:
    place.arm(fenced, lease)
    folder = place.state / "guard/g1"
    next(folder.glob("armed.*")).rename(folder / "fired")
    with pytest.raises(OperationFailed, match="put back what it guards"):
        place.commit(fenced)
    place.commit(fenced, lenient=True)
    assert place.fired() == 1


def test_it_fires_when_everybody_is_dead(place: Place, wait_for: WaitFor) -> None:
    """Controller and keeper killed at once: only what was left on the host acts."""
    lease = place.take(renew_s=0.3)
    place.arm(Fenced(here(), lease), lease, after_s=2)
    process = lease._stream._wire._process  # type: ignore[attr-defined]
    os.killpg(process.pid, signal.SIGKILL)
    wait_for(lambda: place.fired() == 1)
    assert not (place.state / "lease").exists()


def test_armed_anew_it_begins_anew(place: Place, lease: Lease, fenced: Connection) -> None:
    place.arm(fenced, lease)
    place.arm(fenced, lease)
    assert place.fired() == 0
    place.commit(fenced)
    with pytest.raises(OperationFailed, match="not armed"):
        place.commit(fenced)
    place.commit(fenced, lenient=True)


def test_given_back_with_a_guard_armed_it_fires_first(place: Place, lease: Lease, fenced: Connection) -> None:
    place.arm(fenced, lease)
    lease.release()
    assert place.fired() == 1
    assert not (place.state / "lease").exists()


def test_while_guards_fire_nothing_begins_beside_them(
    place: Place, lease: Lease, fenced: Connection, wait_for: WaitFor
) -> None:
    place.arm(fenced, lease, slow_s=3)
    giving_back = threading.Thread(target=lease.release)
    giving_back.start()
    wait_for(lambda: any(place.state.glob("lease/*/leaving")))
    with pytest.raises(ConnectionLost):
        fenced.run("echo x", deadline_s=20)
    assert place.fired() == 0
    giving_back.join()
    assert place.fired() == 1


def test_what_another_run_of_the_host_left_is_settled(place: Place) -> None:
    place.stop_time()
    old = place.take(renew_s=999)
    place.arm(Fenced(here(), old), old)
    old.close()
    # As a restart leaves it: nobody watches, nobody fires.
    folder = place.state / "guard/g1"
    (folder / "fired").rename(folder / "armed.again")
    (folder / "rc").unlink()
    before = place.fired()
    place.restart(78)
    new = place.take()
    fenced = Fenced(here(), new)
    assert place.settle(fenced) == {"g1": "0"}
    assert place.fired() == before + 1
    assert place.settle(fenced) == {}


def test_a_way_back_that_died_in_the_middle_is_gone_again(place: Place) -> None:
    place.stop_time()
    lease = place.take()
    fenced = Fenced(here(), lease)
    place.arm(fenced, lease)
    folder = place.state / "guard/g1"
    next(folder.glob("armed.*")).rename(folder / "fired")
    (folder / "runs").write_text("999999999\n")
    assert place.settle(fenced) == {"g1": "0"}
    assert place.fired() == 1


def test_settling_forgets_what_was_in_flight(place: Place, fenced: Connection) -> None:
    (place.state / "inflight.json").write_text("{broken")
    place.settle(fenced)
    assert not (place.state / "inflight.json").exists()


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "a/b"])
def test_a_name_that_is_no_folders_is_refused(
    place: Place, lease: Lease, fenced: Connection, name: str
) -> None:
    with pytest.raises(OperationFailed, match="can't be called"):
        place.arm(fenced, lease, name)


def test_firing_and_committing_exclude_each_other(place: Place, lease: Lease, fenced: Connection) -> None:
    fire = assignments(place.where) + script("lease", "guard")
    fire += 'life; read -r _; armed "$state/guard/g1" && fire "$state/guard/g1" "$armed"\n'
    fired = 0
    for _ in range(15):
        place.arm(fenced, lease)
        racer = subprocess.Popen(["sh", "-c", fire], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        before = place.fired()
        assert racer.stdin
        racer.stdin.write(b"go\n")
        racer.stdin.close()
        try:
            place.commit(fenced)
            committed = True
        except OperationFailed:
            committed = False
        racer.wait()
        assert place.fired() - before == (0 if committed else 1)
        fired += not committed
        place.settle(fenced)
    assert fired <= 15


@pytest.mark.parametrize("terms", ["", "someone * 08 nowhere", "someone 1;2 -x {life}"])
def test_a_damaged_guard_is_brought_home_all_the_same(place: Place, terms: str) -> None:
    place.stop_time()
    lease = place.take()
    fenced = Fenced(here(), lease)
    place.arm(fenced, lease)
    folder = place.state / "guard/g1"
    (folder / "terms").write_text(terms.format(life="boot.77"))
    (folder / "renewed").write_text("a b[\n")
    assert place.settle(fenced) == {"g1": "0"}
    assert place.fired() == 1
    lease.renew()


def test_where_nothing_can_be_noted_it_is_put_back_all_the_same(place: Place) -> None:
    """As on a full disk: names can be changed, no file can be written."""
    lease = place.take()
    place.arm(Fenced(here(), lease), lease)
    folder = place.state / "guard/g1"
    for name in ("runs", "log.new", "log", "rc.new"):
        (folder / name).mkdir()
    lease.release()
    assert place.fired() == 1
