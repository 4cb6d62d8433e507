"""Whether a model answers, seen by a steady client beside the host, and for how long it did not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults import client
from tests.lab import engine
from tests.lab.hosts import Host


@dataclass(frozen=True)
class Try:
    """One request: when it began and ended (seconds of the machine's monotonic clock). `context`: of the
    server that answered; None: nobody did."""

    began: float
    ended: float
    context: int | None


class Service:
    """The client of one host's port, from `start` to `stop`. A host that restarts needs another `start`."""

    def __init__(self, host: Host, port: int, key: str, log: Path) -> None:
        self._host = host
        self._port = port
        self._key = key
        self._log = log
        self._client: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin to ask, in the network that the host has now."""
        self.stop()
        pid = engine.docker("inspect", "--format", "{{.State.Pid}}", self._host.container).strip()
        command = [sys.executable, client.__file__, str(self._port), str(self._log)]
        self._client = subprocess.Popen(
            ["nsenter", "--net", "--target", pid, *command], stdin=subprocess.PIPE, text=True
        )
        assert self._client.stdin
        self._client.stdin.write(f"{self._key}\n")
        self._client.stdin.flush()

    def stop(self) -> None:
        """Ask no more."""
        if self._client is not None:
            self._client.kill()
            self._client.communicate()
            self._client = None

    def tries(self) -> list[Try]:
        """All that was asked so far, oldest first."""
        if not self._log.exists():
            return []
        lines = self._log.read_text().splitlines(keepends=True)
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return [Try(each["from"], each["to"], each["context"]) for each in told]


def silence(tries: Sequence[Try], since: float, until: float) -> float:
    """Seconds between `since` and `until` in which a client was without an answer: from the last answer
    before a failed request to the next one."""
    total, last_good, failed = 0.0, since, False
    for each in tries:
        if each.ended < since or each.began > until:
            continue
        if each.context is None:
            failed = True
            continue
        if failed:
            total += max(0.0, min(each.ended, until) - last_good)
        last_good, failed = each.ended, False
    return total + (max(0.0, until - last_good) if failed else 0.0)
