"""A host whose disk takes nothing any more: who holds it keeps it, and what waits to be put back still is."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.errors import OperationFailed
from cpudeploy.execute.fence import Fenced
from cpudeploy.execute.guard import arm_guard
from cpudeploy.execute.lease_break import see_lease
from cpudeploy.types import operation as op
from cpudeploy.types.safety import InFlight

from .keepers import Place, here

WaitFor = Callable[[Callable[[], bool]], None]
CHANGE = InFlight(deployment="rag", plan="p1", change="c1", subject="qwen", holder="me")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Its state is on a small disk of its own; time stands still."""
    place = Place(tmp_path)
    place.stop_time()
    place.state.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place.state)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    place.close()
    subprocess.run(["umount", "-l", str(place.state)], check=True)


def fill(place: Place) -> None:
    with contextlib.suppress(OSError), (place.state / "full").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def test_the_lease_and_its_guards_live_on(place: Place, wait_for: WaitFor) -> None:
    lease = place.take(renew_s=999)
    place.arm(Fenced(here(), lease), lease)
    fill(place)
    for time in (1029, 1058, 1087):
        place.set_time(time)
        lease.renew()
        seen = see_lease(here(), **place.where)
        assert seen is not None and seen.lease.silent_s == 0
    assert place.fired() == 0
    place.set_time(1117)
    wait_for(lambda: place.fired() == 1)


def test_what_is_given_back_is_put_back_first_although_it_can_say_nothing(place: Place) -> None:
    lease, out = place.take(renew_s=999), place.folder / "put back"
    text = 'set -eu\necho "half of it"\nmkdir "$out"\n'
    revert = op.Script(id="r", deadline_s=20, script="back", args={"out": str(out)}, text=text, sha256="")
    arm = op.GuardArm(id="a", deadline_s=20, guard="g1", after_s=30, revert=revert)
    arm_guard(Fenced(here(), lease), arm, lease, "c1", **place.where)
    fill(place)
    lease.release()
    assert out.is_dir()
    assert see_lease(here(), **place.where) is None


def test_nothing_is_begun_and_nobody_new_leaves_anything(place: Place) -> None:
    lease = place.take(renew_s=999)
    fill(place)
    with pytest.raises(OperationFailed, match="could not be written"):
        lease.begin(CHANGE)
    assert not (place.state / "inflight.json").exists()
    lease.release()
    fill(place)
    with pytest.raises(OperationFailed, match="can't be taken: "):
        place.take()
    assert [path.name for path in place.state.glob("lease*")] == []
