"""A host with one model, upgraded again and again, each time broken in another way.

A case begins on a host that serves and ends on one that does: the apply that heals it is the reset.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.site import Site, make_site
from tests.faults.cases import IN_WORDS, Case, Way
from tests.faults.service import Service, silence
from tests.faults.shape import differences, release_faults, shape
from tests.lab.lab import Lab
from tests.lab.shell import LabError, wait_until

PORT = 8100
CONTEXTS = (512, 1024)
LEASE_S = 90
"""How long a host may take to be free and at rest: guards fire within 30 s, a lease expires after 60."""
APPLY_S = 300


@dataclass
class Result:
    """What came of a case. `broken`: exit code of the apply that was broken (-9: killed); `rest_s`: from its end
    until nothing was about to happen on the host any more. `serves`: old, new or nothing, then. `silent_s`:
    without an answer from the fault until then, `silent_next_s` during the next apply. `plan`, `lease`,
    `guard`, `in_flight`: what was told then. `locked_s`: how long the next apply had to wait for the lease.
    `wrong`: what should not be; empty: the case passed.
    """

    name: str
    way: str
    fault: str
    when: str
    broken: int = 0
    rest_s: float = 0.0
    serves: str = ""
    silent_s: float = 0.0
    plan: str = ""
    lease: str = "free"
    guard: str = "none"
    in_flight: str = "none"
    locked_s: float = 0.0
    apply: int = 0
    apply_s: float = 0.0
    silent_next_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Bench:
    """One host of a lab. `prepare` first, then any number of cases."""

    def __init__(self, lab: Lab, host: str, folder: Path) -> None:
        self.host = lab.hosts[host]
        self.site: Site = make_site(lab, folder, host)
        self._tiny = self.site.manifest["models"]["tiny"]
        self._folder = folder
        self._service = Service(self.host, PORT, self.site.api_key, folder / "tries")
        self._runs = 0

    def prepare(self) -> None:
        """The model serves, and what the host looks like then is known."""
        self._tiny["context"] = CONTEXTS[0]
        self.site.run("apply")
        self._service.start()
        self._upgrade("auto")  # from here on every file has been written over once
        self.site.run("apply")
        self._rested = self._at_rest()

    def _at_rest(self) -> Counter[str]:
        """How the host looks when it has looked so for a while: processes take a moment to end."""
        before = shape(self.host)
        for _ in range(10):
            time.sleep(2)
            now = shape(self.host)
            if now == before:
                return now
            before = now
        raise LabError(f"{self.host.name} does not come to rest")

    def close(self) -> None:
        """Stop what was started here."""
        self._service.stop()

    def undisturbed(self, way: Way) -> tuple[list[str], float, float]:
        """An upgrade that nothing happens to: its steps, its seconds from the first step to the end, and
        how long nothing answered."""
        self._upgrade(way)
        since = time.monotonic()
        process, trace = self._start({})
        code, output = self._end(process)
        assert code == 0, output
        steps = steps_of(trace)
        until = time.monotonic()
        return (
            [step["name"] for step in steps],
            until - steps[0]["at"],
            silence(self._service.tries(), since, until),
        )

    def run(self, case: Case) -> Result:
        """Break an upgrade, look, heal it by one apply, look again."""
        self._upgrade(case.way)
        result = Result(case.name, case.way, case.fault, "")
        since = time.monotonic()
        try:
            self._break(case, result)
            self._rest(result)
            self._look(result, since)
            self._heal(result)
        except (AssertionError, LabError, ValueError, subprocess.TimeoutExpired) as error:
            result.wrong.append(f"it could not be looked at to the end: {tail(str(error))}")
        if result.wrong:
            self._begin_anew()
        return result

    def _begin_anew(self) -> None:
        """What a case left behind is no fault of the next one."""
        self.site.start("destroy", "--yes").communicate(timeout=APPLY_S)
        code, output = self._apply()
        assert code == 0, f"{self.host.name} can't be brought back: {output}"

    # the upgrade

    def _upgrade(self, way: str) -> None:
        """What is wanted from now on, and how one gets there."""
        self._tiny["replace"] = way
        old = self._tiny["context"]
        self._tiny["context"] = CONTEXTS[1] if old == CONTEXTS[0] else CONTEXTS[0]
        self.site.write()

    def _start(self, settings: dict[str, Any]) -> tuple[subprocess.Popen[str], Path]:
        """The real command line, its steps told to a file."""
        self._runs += 1
        trace = self._folder / f"trace-{self._runs}"
        output = (self._folder / f"apply-{self._runs}").open("w")
        environment = {"COLUMNS": "240", "PYTHONPATH": str(Path(__file__).parents[2])}
        words = [sys.executable, "-m", "tests.faults.driver", json.dumps({"trace": str(trace), **settings})]
        process = subprocess.Popen(
            [*words, "apply"],
            cwd=self.site.folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
        )
        output.close()
        return process, trace

    def _end(self, process: subprocess.Popen[str], timeout: float = APPLY_S) -> tuple[int, str]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=timeout)
        if process.returncode is None:
            process.kill()
            process.communicate()
        return process.returncode, (self._folder / f"apply-{self._runs}").read_text()

    # the fault

    def _break(self, case: Case, result: Result) -> None:
        """Run the upgrade into its fault."""
        settings = {"kill_before": case.at, "kill_after_s": case.after_s}
        if case.fault != "kill":
            settings = {"hold_before": case.at}
        process, trace = self._start(settings)
        try:
            if case.fault != "kill":
                self._disturb(case, process, trace)
        finally:
            result.broken, output = self._end(process)
            if case.fault == "unplug":
                self.host.reconnect()
                self.host.wait_for_ssh()
        result.when = when(case, [step["name"] for step in steps_of(trace)])
        if case.fault == "kill" and result.broken != -9 and not (case.after_s and result.broken == 0):
            result.wrong.append(
                f"the controller was to be killed, and ended with {result.broken}: {tail(output)}"
            )
        if "Traceback" in output:
            result.wrong.append(f"a traceback: {tail(output)}")

    def _disturb(self, case: Case, process: subprocess.Popen[str], trace: Path) -> None:
        """Wait until the upgrade stands before its step, disturb it, let it go on."""

        def there() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"the apply ended before the step {case.at}")
            steps = steps_of(trace)
            return bool(steps) and case.at in (steps[-1]["step"], steps[-1]["name"])

        wait_until(f"the step {case.at}", there, APPLY_S, every_s=0.05)
        DISTURBANCES[case.fault](self)
        assert process.stdin
        with contextlib.suppress(OSError):
            process.stdin.write("\n")
            process.stdin.flush()

    def cut(self) -> None:
        """Every session of sshd ends, as when a firewall forgets them."""
        self.host.exec(["sh", "-c", "kill -9 $(ps -eo pid=,args= | awk '/sshd: ops/ {print $1}')"])

    def unplug(self) -> None:
        self.host.disconnect()

    def engine_restart(self) -> None:
        self.host.exec(["systemctl", "restart", "docker"])

    def engine_kill(self) -> None:
        self.host.exec(["sh", "-c", "kill -9 $(cat /run/docker.pid)"])

    def host_restart(self) -> None:
        self.host.restart()
        self._service.start()

    # afterwards

    def _rest(self, result: Result) -> None:
        """Wait until no guard is about to fire and the lease is free or nobody's any more."""
        since = time.monotonic()
        facts = self._facts()
        while _restless(facts) and time.monotonic() < since + LEASE_S:
            time.sleep(0.3)
            facts = self._facts()
        if _restless(facts):
            result.wrong.append(f"after {LEASE_S} s the host is not at rest")
        result.rest_s = time.monotonic() - since
        lease, guards, in_flight = facts.get("lease"), facts.get("guards") or {}, facts.get("in_flight")
        if lease:
            result.lease = "expired, not renewed since" if lease["expired"] else "still held"
        if guards:
            result.guard = ", ".join(sorted({guard["state"] for guard in guards.values()}))
        if in_flight:
            result.in_flight = in_flight.get("operation") or in_flight.get("subject") or json.dumps(in_flight)

    def _look(self, result: Result, since: float) -> None:
        """What serves, and what the next plan says."""
        (host,) = self._data("plan")["hosts"].values()
        changes = [f"{change['action']} {change['subject']}: {change['why']}" for change in host["changes"]]
        told = [f"{change}" for change in changes] + [host[key] for key in ("unknown",) if host.get(key)]
        result.plan = "; ".join(told) or "no changes"
        now = time.monotonic()
        self._answered_since(now)
        tries = self._service.tries()
        last = tries[-1].context
        wanted = self._tiny["context"]
        result.serves = "nothing" if last is None else "new" if last == wanted else "old"
        result.silent_s = silence(tries, since, tries[-1].ended)
        if last is None and result.fault in ("kill", "cut", "unplug"):
            result.wrong.append("nothing serves, and nothing will until somebody applies")

    def _answered_since(self, moment: float) -> None:
        """Wait for a request that began after `moment`, whatever came of it."""
        wait_until("the client", lambda: any(each.began > moment for each in self._service.tries()[-3:]), 30)

    def _heal(self, result: Result) -> None:
        """One apply, and what stands then."""
        since = time.monotonic()
        code, output = self._apply()
        while code == 5 and time.monotonic() < since + LEASE_S:
            time.sleep(1)
            result.locked_s = time.monotonic() - since
            code, output = self._apply()
        done = time.monotonic()
        result.apply, result.apply_s = code, done - since - result.locked_s
        self._answered_since(done)
        tries = self._service.tries()
        result.silent_next_s = silence(tries, since, tries[-1].ended)
        if code != 0:
            result.wrong.append(f"the next apply ended with {code}: {tail(output)}")
        if tries[-1].context != self._tiny["context"]:
            result.wrong.append("after the next apply it is not the new one that answers")
        result.wrong += self._left()
        if any(host["changes"] for host in self._data("plan")["hosts"].values()):
            result.wrong.append("a plan after the next apply is not empty")

    def _left(self) -> list[str]:
        """What an upgrade that nothing happened to would not have left."""
        seconds = time.monotonic() + 10
        found = differences(self._rested, shape(self.host))
        while found and time.monotonic() < seconds:  # processes take a moment to end
            time.sleep(0.5)
            found = differences(self._rested, shape(self.host))
        return [*found, *release_faults(self.host)]

    def _apply(self) -> tuple[int, str]:
        process = self.site.start("apply")
        out, err = process.communicate(timeout=APPLY_S)
        return process.returncode, out + err

    def _facts(self) -> dict[str, Any]:
        (facts,) = self._data("facts").values()
        return dict(facts)

    def _data(self, command: str) -> dict[str, Any]:
        """What a command tells as JSON."""
        out, err = self.site.start(command, "--format", "json").communicate(timeout=APPLY_S)
        try:
            return dict(json.loads(out))
        except ValueError:
            raise AssertionError(f"cpudeploy {command} told no JSON: {tail(out)} {tail(err)}") from None


DISTURBANCES: dict[str, Callable[[Bench], None]] = {
    "cut": Bench.cut,
    "unplug": Bench.unplug,
    "engine-restart": Bench.engine_restart,
    "engine-kill": Bench.engine_kill,
    "host-restart": Bench.host_restart,
}
assert {"kill", *DISTURBANCES} == set(IN_WORDS)


def _restless(facts: dict[str, Any]) -> bool:
    lease, guards = facts.get("lease"), facts.get("guards") or {}
    return bool(lease and not lease["expired"]) or any(each["state"] == "armed" for each in guards.values())


def when(case: Case, steps: Sequence[str]) -> str:
    """When it happened, by the steps that an apply came to."""
    if case.after_s is not None:
        return f"after {case.after_s:.2f} s, in “{steps[-1]}”" if steps else "before the first step"
    if case.fault != "kill":
        return f"before “{steps[case.at] if isinstance(case.at, int) else case.at}”"
    return f"after “{steps[-1]}”" if steps else "before the first step"


def steps_of(trace: Path) -> list[dict[str, Any]]:
    """The steps an apply came to."""
    if not trace.exists():
        return []
    lines = trace.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def tail(text: str, lines: int = 6) -> str:
    """The last lines of what a command said, on one."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])
