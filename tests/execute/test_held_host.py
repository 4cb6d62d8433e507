"""Lease, fence and guards on real hosts: with and without sudo's password, and with every way to lose a host."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectError, Locked, OperationFailed
from cpudeploy.execute import HostTarget
from cpudeploy.execute.fence import Fenced
from cpudeploy.execute.guard import arm_guard, settle_guards
from cpudeploy.execute.lease import Lease, take_lease
from cpudeploy.execute.lease_break import break_lease, see_lease
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection
from cpudeploy.types import operation as op
from cpudeploy.types.plan import Change, Fingerprint
from cpudeploy.types.safety import Lease as Told
from tests.acceptance.site import bare_hosts
from tests.lab import Lab
from tests.lab.hosts import Host, HostSpec

from .conftest import lab_plan, reach

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[2]
CHANGE = Change(
    id="c1",
    phase="replace",
    step="container",
    subject="tiny",
    action="update",
    why="",
    summary="",
    before=Fingerprint(),
    after=Fingerprint(),
    operations=(),
)


def arm(after_s: int = 30) -> op.GuardArm:
    revert = op.Script(
        id="r",
        deadline_s=20,
        script="back",
        args={"out": "/root/put-back"},
        text='echo "put back" >>"$out"\n',
        sha256="",
    )
    return op.GuardArm(id="arm", deadline_s=20, guard="rag_tiny_0", after_s=after_s, revert=revert)


def commit(**options: bool) -> op.GuardCommit:
    return op.GuardCommit(id="commit", deadline_s=20, guard="rag_tiny_0", **options)


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[None]:
    """Hosts that nobody else works on: they are cut off, restarted and locked here."""
    bare_hosts(
        lab,
        HostSpec("held12", "bookworm", engine=True),
        HostSpec("held13", "trixie", sudo="password", engine=True),
    )
    yield
    for name in ("held12", "held13"):
        lab.remove(name)


@pytest.fixture(params=["held12", "held13"])
def name(request: pytest.FixtureRequest, lab: Lab, hosts: None) -> Iterator[str]:
    found: str = request.param
    clean = "rm -rf /var/lib/cpudeploy /root/put-back; docker rm -f rag_x >/dev/null 2>&1"
    lab.hosts[found].exec(["sh", "-c", clean])
    yield found
    lab.hosts[found].exec(["sh", "-c", clean])


@pytest.fixture
def host(lab: Lab, name: str) -> Host:
    return lab.hosts[name]


@pytest.fixture
def connect_to(lab: Lab, name: str, secrets: Secrets) -> Iterator[Callable[[], Connection]]:
    opened: list[Connection] = []

    def connect_to() -> Connection:
        opened.append(reach(lab, name, secrets))
        return opened[-1]

    yield connect_to
    for connection in opened:
        connection.close()


@pytest.fixture
def target(lab: Lab, secrets: Secrets, connect_to: Callable[[], Connection]) -> Iterator[HostTarget]:
    target = HostTarget(connect_to(), plan=lab_plan(lab), secrets=secrets, reconnect=connect_to)
    yield target
    target.close()


def fired(host: Host) -> int:
    return len(host.exec(["cat", "/root/put-back"]).stdout.splitlines())


def eventually(so: Callable[[], bool], limit_s: float = 120) -> None:
    give_up = time.monotonic() + limit_s
    while not so():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.3)


def test_one_apply_with_everything_it_notes(
    target: HostTarget, host: Host, lab: Lab, secrets: Secrets, connect_to: Callable[[], Connection]
) -> None:
    other = HostTarget(connect_to(), plan=lab_plan(lab), secrets=secrets, command="destroy")
    assert target.facts().lease is None
    target.lock("p1")
    with pytest.raises(Locked, match=r"has held this host for .* \(apply of"):
        other.lock("p2")
    target.begin(CHANGE)
    target.perform(arm(), lambda _event: None)
    facts = target.facts()
    assert facts.lease is not None and facts.lease.plan == "p1" and not facts.lease.expired
    assert facts.in_flight is not None and facts.in_flight.operation == "arm"  # type: ignore[union-attr]
    guard = facts.guards["rag_tiny_0"]
    assert (guard.state, guard.plan, guard.change) == ("armed", "p1", "c1")
    assert 0 < guard.left_s <= 30
    target.perform(commit(fresh=True), lambda _event: None)
    with pytest.raises(OperationFailed, match="not armed"):
        target.perform(commit(), lambda _event: None)
    target.end(CHANGE, "done")
    target.finish("done", used=True)
    facts = target.facts()
    assert (facts.in_flight, facts.guards) == (None, {})
    assert facts.used_plans == {lab_plan(lab).deployment: ("p1",)}
    target.unlock()
    other.lock("p2")
    other.unlock()
    assert fired(host) == 0
    log = host.exec(["cat", "/var/lib/cpudeploy/audit.jsonl"]).stdout.splitlines()
    assert [json.loads(line)["event"] for line in log] == ["begin", "end", "finish"]
    assert host.exec(["stat", "-c", "%a", "/var/lib/cpudeploy"]).stdout == "700\n"


CONTROLLER = """
import sys
from cpudeploy.errors import CpudeployError
from cpudeploy.execute import HostTarget
from cpudeploy.secrets import Secrets
from cpudeploy.types import operation as op
from tests.execute.conftest import lab_plan, reach
from tests.execute.test_held_host import CHANGE, arm, commit
from tests.acceptance.site import bare_hosts
from tests.lab import Lab
lab = Lab({lab!r}, {subnet!r})
target = HostTarget(reach(lab, {name!r}, Secrets(lab.state)), plan=lab_plan(lab), secrets=Secrets(lab.state))
target.lock("p1")
target.begin(CHANGE)
quiet = lambda _event: None
def go():
    print("ready", flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def controller(lab: Lab, name: str, work: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that holds the host and does `work`; it has said `ready` once this is entered."""
    text = CONTROLLER.format(lab=lab.name, subnet=str(lab.subnet), name=name) + textwrap.dedent(work)
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_a_controller_that_slept_cannot_use_the_engine(
    lab: Lab, name: str, host: Host, connect_to: Callable[[], Connection]
) -> None:
    """Its connection to the engine was open and in use when it was stopped."""
    work = """
        target.perform(op.Engine(id="n", deadline_s=20, request=op.CreateNetwork(
            network="rag_first", subnet="10.78.0.0/26", internal=True,
            labels={"io.cpudeploy.deployment": lab_plan(lab).deployment})), quiet)
        go()
        for request in (
            op.RemoveNetwork(network="rag_first"),
            op.CreateNetwork(network="rag_second", subnet="10.78.0.64/26", internal=True, labels={}),
        ):
            try:
                target.perform(op.Engine(id="e", deadline_s=20, request=request), quiet)
                print("changed something", flush=True)
            except CpudeployError as error:
                print(type(error).__name__, flush=True)
        """
    with controller(lab, name, work) as process:
        process.send_signal(signal.SIGSTOP)
        connection = connect_to()
        seen = see_lease(connection)
        assert seen is not None and not seen.lease.expired
        assert break_lease(connection, seen)
        lease = take_lease(connection, command="destroy", deployment="rag", plan="p2")
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate("go\n", timeout=60)
    assert out.split() == ["Locked", "Locked"]
    networks = host.exec(["docker", "network", "ls", "--format", "{{.Name}}"]).stdout.split()
    assert "rag_first" in networks and "rag_second" not in networks
    host.exec(["docker", "network", "rm", "rag_first"])
    lease.release()


def test_killed_it_leaves_the_host_free_and_put_back(
    lab: Lab, name: str, host: Host, target: HostTarget
) -> None:
    with controller(lab, name, "target.perform(arm(), quiet)\ngo()\n") as process:
        assert fired(host) == 0
        process.kill()
        process.wait()
        eventually(lambda: see(target) is None)
    assert fired(host) == 1
    facts = target.facts()
    assert facts.guards["rag_tiny_0"].state == "fired"
    assert facts.guards["rag_tiny_0"].rc == 0
    assert facts.in_flight is not None
    target.lock("p2")
    target.settle()
    facts = target.facts()
    assert (facts.guards, facts.in_flight) == ({}, None)
    assert fired(host) == 1


def see(target: HostTarget) -> Told | None:
    return target.facts().lease


def test_cut_off_in_the_middle_the_guard_fires_and_the_host_is_free(
    host: Host, connect_to: Callable[[], Connection]
) -> None:
    """Nobody tells the host that its controller is gone: the network takes nothing any more. Back again, and its
    connection as good as ever, the controller can't go on from what was put back."""
    lost = connect_to()
    lease = take_lease(lost, command="apply", deployment="rag", plan="p1", renew_s=1)
    arm_guard(Fenced(lost, lease), arm(after_s=5), lease, "c1")
    host.disconnect()
    try:
        eventually(lambda: fired(host) == 1)
    finally:
        host.reconnect()
        host.wait_for_ssh()
    with pytest.raises((Locked, ConnectError)):
        lease.renew()
    new = take_lease(connect_to(), command="apply", deployment="rag", plan="p2")
    assert settle_guards(Fenced(connect_to(), new)) == {"rag_tiny_0": "0"}
    assert fired(host) == 1
    new.release()


def test_cut_off_for_good_the_lease_expires(host: Host, connect_to: Callable[[], Connection]) -> None:
    """The host's sshd still holds the channel, and its keeper still waits there."""
    lease = take_lease(connect_to(), command="apply", deployment="rag", plan="p1", ttl_s=10, renew_s=1)
    host.disconnect()
    try:
        eventually(lambda: _is_gone(lease))
    finally:
        host.reconnect()
        host.wait_for_ssh()
    take_lease(connect_to(), command="apply", deployment="rag", plan="p2").release()


def _is_gone(lease: Lease) -> bool:
    try:
        lease.require()
    except ConnectError:
        return True
    return False


def test_a_restart_of_the_host_frees_it_and_settling_puts_back(
    lab: Lab, name: str, host: Host, secrets: Secrets, target: HostTarget
) -> None:
    target.lock("p1")
    target.begin(CHANGE)
    target.perform(arm(), lambda _event: None)
    # Killed and not shut down, so that nothing on the host may tidy up.
    host.exec(["sh", "-c", "kill -9 -1"])
    host.restart()
    host.wait_for_ssh()
    new = HostTarget(reach(lab, name, secrets), plan=lab_plan(lab), secrets=secrets)
    try:
        assert fired(host) == 0
        facts = new.facts()
        assert facts.lease is not None and facts.lease.expired
        assert facts.guards["rag_tiny_0"].state == "lost"
        assert facts.in_flight is not None
        new.lock("p2")
        new.settle()
        assert fired(host) == 1
        assert new.facts().guards == {}
    finally:
        new.close()


def test_unlock_shows_who_holds_the_host_and_takes_it_away(
    lab: Lab, name: str, target: HostTarget, tmp_path: Path
) -> None:
    (tmp_path / "sudo-password").write_text(lab.sudo_password)
    manifest = {
        "version": 1,
        "name": "other",
        "defaults": {
            "ssh": {"user": "ops", "config": str(lab.state / "ssh_config")},
            "sudo": {"password": {"from_file": "sudo-password"}},
        },
        "hosts": {name: {"address": lab.hosts[name].address}},
    }
    (tmp_path / "inventory.yaml").write_text(json.dumps(manifest))

    def unlock(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "cpudeploy", "unlock", *words],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "240"},
        )
        return done.returncode, done.stdout + done.stderr

    assert unlock() == (0, f"{name}: not locked\n")
    target.lock("p1")
    code, said = unlock()
    assert code == 64
    assert f"{name}: held by " in said and "(apply of rag), for" in said and "needs --yes" in said
    target.begin(CHANGE)
    code, said = unlock("--yes", "--limit", name)
    assert (code, said.splitlines()[-1]) == (0, f"{name}: unlocked")
    with pytest.raises(Locked, match="somebody unlocked it"):
        target.end(CHANGE, "done")
    assert unlock("--yes") == (0, f"{name}: not locked\n")
