"""The lab's model hub as a process: started on the gateway's address, stopped by its pid.

In: an address and the state folder. Out: a running hub with the lab's models, two users' tokens, its log, and
switches for its faults.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import models
from tests.lab.hub import Faults
from tests.lab.shell import LabError, tail, wait_until

PORT = 8000  # and the next one for the storage that large files are redirected to
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF"
TINY = "cpudeploy/tiny-random-llama-GGUF"
GATED = "cpudeploy/tiny-random-llama-gated-GGUF"
CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Hub:
    """The hub of one lab."""

    address: str
    state: Path
    port: int = PORT

    @property
    def url(self) -> str:
        """For HF_ENDPOINT."""
        return f"http://{self.address}:{self.port}"

    @property
    def root(self) -> Path:
        """The repositories: write files to `ORG/NAME/files` and they are served (see hub_repos.py)."""
        return self.state / "hub"

    @property
    def token(self) -> str:
        """A token that may read the gated repository."""
        return (self.state / "hub-token").read_text()

    @property
    def token_without_access(self) -> str:
        """A valid token that may not."""
        return (self.state / "hub-token-without-access").read_text()

    def requests(self) -> list[dict[str, Any]]:
        """Everything the hub was asked, oldest first."""
        log = self.state / "hub.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def forget_requests(self) -> None:
        """Empty the log."""
        (self.state / "hub.log").write_text("")

    def break_requests(self, **faults: Any) -> None:
        """Make requests go wrong until `heal`; the fields are those of `hub.Faults`."""
        data = json.dumps(Faults(**faults).__dict__).encode()
        request = urllib.request.Request(f"{self.url}/lab/faults", data, method="PUT")
        _direct().open(request, timeout=5).close()

    def heal(self) -> None:
        """No faults any more."""
        self.break_requests()

    def start(self) -> None:
        """Start the hub if it isn't running, and wait for it."""
        if self._pid() is not None:
            return
        self._fill()
        output = self.state / "hub.err"
        with output.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.lab.hub", *self._arguments()],
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        (self.state / "hub.pid").write_text(str(process.pid))

        def up() -> bool:
            if process.poll() is not None:
                raise LabError(f"the hub ended with {process.returncode}:\n{tail(output.read_text())}")
            with contextlib.suppress(OSError):
                _direct().open(f"{self.url}/api/models/{TINY}", timeout=2).close()
                return True
            return False

        wait_until("the hub", up, 20)

    def stop(self) -> None:
        """Stop the hub if it runs."""
        pid = self._pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)

        def gone() -> bool:
            with contextlib.suppress(ChildProcessError):  # reap it when it is our child
                os.waitpid(pid, os.WNOHANG)
            return self._pid() is None

        wait_until("the hub's end", gone, 10)

    def _arguments(self) -> list[str]:
        return [self.address, str(self.port), str(self.root), str(self.state / "hub.log")]

    def _pid(self) -> int | None:
        """The pid of this hub, if it lives: pids are used again."""
        try:
            pid = int((self.state / "hub.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.root).encode() in command else None

    def _fill(self) -> None:
        """The repositories and the tokens."""
        for repo, file in ((SMOLLM2, models.smollm2()), (TINY, models.tiny()), (GATED, models.tiny())):
            folder = self.root / repo / "files"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "README.md").write_text(f"# {repo.partition('/')[2]}\n")
            if not (folder / file.name).exists():
                (folder / file.name).symlink_to(file)
        (self.root / GATED / "repo.json").write_text('{"gated": true}')
        users = {"hub-token": ("reader", [GATED]), "hub-token-without-access": ("stranger", [])}
        tokens = {}
        for file_name, (name, access) in users.items():
            place = self.state / file_name
            if not place.exists():
                place.touch(mode=0o600)
                place.write_text(f"hf_{secrets.token_hex(17)}")
            tokens[place.read_text()] = {"name": name, "access": access}
        (self.root / "tokens.json").write_text(json.dumps(tokens))


def _direct() -> urllib.request.OpenerDirector:
    """Lab addresses are reached without the machine's proxy."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
