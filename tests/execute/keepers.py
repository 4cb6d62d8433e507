"""Leases on this machine: the real scripts on a folder of the test's own, and controllers that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cpudeploy.execute.guard import arm_guard, commit_guard, settle_guards
from cpudeploy.execute.lease import Lease, script, take_lease
from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, connect
from cpudeploy.transport.shell import assignments
from cpudeploy.types import operation as op
from tests.transport.busybox import HERE

ROOT = Path(__file__).parents[2]


def here() -> Connection:
    """This machine."""
    return connect(HERE, Secrets(Path("/")))


@dataclass
class Place:
    """A host's state folder. `proc` is the machine's, or a folder in which time stands still."""

    folder: Path
    proc: str = "/proc"
    opened: list[Lease] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def where(self) -> dict[str, Any]:
        return {"state": str(self.state), "proc": self.proc}

    def stop_time(self) -> None:
        """From now on the clock of leases and guards is the test's to set."""
        self.proc = str(self.folder / "proc")
        (self.folder / "proc/1").mkdir(parents=True)
        (self.folder / "proc/sys/kernel/random").mkdir(parents=True)
        (self.folder / "proc/sys/kernel/random/boot_id").write_text("boot\n")
        self.restart(77)
        self.set_time(1000)

    def set_time(self, seconds: int) -> None:
        (self.folder / "proc/uptime").write_text(f"{seconds}.00 0.00\n")

    def restart(self, started: int) -> None:
        """The host's first process is another one."""
        fields = " ".join(str(number) for number in range(4, 22))
        (self.folder / "proc/1/stat").write_text(f"1 (init) S {fields} {started} 0\n")

    def take(self, connection: Connection | None = None, **options: Any) -> Lease:
        given = {"command": "apply", "deployment": "rag", "plan": "p1", **self.where, **options}
        lease = take_lease(connection or here(), **given)
        self.opened.append(lease)
        return lease

    def keeper(self, token: str, *, ttl_s: int = 60) -> subprocess.Popen[str]:
        """A keeper as a bare process that begins at the first line it is sent."""
        args = {
            **self.where,
            "token": token,
            "about": json.dumps({"holder": token, "command": "apply", "deployment": "rag", "plan": "p1"}),
            "ttl_s": str(ttl_s),
            "deployment": "rag",
            "plan": "p1",
        }
        text = assignments(args) + "read -r _\n" + script("lease", "guard", "keeper")
        return subprocess.Popen(
            ["sh", "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def arm(
        self, connection: Connection, lease: Lease, name: str = "g1", *, after_s: int = 30, slow_s: int = 0
    ) -> None:
        """A guard that, once it fires, takes `slow_s` seconds to put back."""
        revert = op.Script(
            id="r",
            deadline_s=20,
            script="back",
            args={"out": str(self.folder / f"{name}.out")},
            text=f'sleep {slow_s}; echo "put back" | tee -a "$out"\n',
            sha256="",
        )
        arm = op.GuardArm(id="a", deadline_s=20, guard=name, after_s=after_s, revert=revert)
        arm_guard(connection, arm, lease, "c1", **self.where)

    def commit(self, connection: Connection, name: str = "g1", *, lenient: bool = False) -> None:
        commit = op.GuardCommit(id="c", deadline_s=20, guard=name, lenient=lenient)
        commit_guard(connection, commit, **self.where)

    def settle(self, connection: Connection) -> dict[str, str]:
        return settle_guards(connection, **self.where)

    def fired(self, name: str = "g1") -> int:
        """How often it was put back."""
        out = self.folder / f"{name}.out"
        return len(out.read_text().splitlines()) if out.exists() else 0

    def controller(self, work: str) -> subprocess.Popen[str]:
        """A process of its own that takes the lease (2 s to live), does `work`, and tells `ready` first.

        `work` has place, lease, bare, fenced, and `go()`, which waits for a line on its standard input.
        """
        text = textwrap.dedent(
            f"""
            import sys
            from pathlib import Path
            from cpudeploy.errors import CpudeployError
            from cpudeploy.execute.fence import Fenced
            from tests.execute.keepers import Place, here
            place = Place(Path({str(self.folder)!r}), {self.proc!r})
            bare = here()
            lease = place.take(bare, ttl_s=2, renew_s=0.3)
            fenced = Fenced(bare, lease)
            def go():
                print("ready", flush=True)
                sys.stdin.readline()
            """
        ) + textwrap.dedent(work)
        return subprocess.Popen(
            [sys.executable, "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def close(self) -> None:
        for lease in self.opened:
            lease.close()
