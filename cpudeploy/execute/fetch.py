"""One weights file onto a host, by the host's own curl. Sources and retries are decided here; the
download, its hashing and its resume are `scripts/fetch.sh`. The token goes only where it belongs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Protocol
from urllib.parse import urlsplit

from ..errors import HostError, HubError, NotYet, OperationFailed
from ..secrets import Secrets
from ..types.names import STATE_DIR
from ..types.operation import Fetch
from ..types.resolved import WeightFile

_TRIES = 5
_MISSING, _NO_SPACE, _WRONG, _BUSY, _FAILED, _OLD_CURL, _NO_RESUME, _TOO_LONG = range(10, 18)
_STATUS = re.compile(r"returned error: (\d{3})")
_STALLED = "curl: (28)"
_GIVE_UP = {400, 401, 403, 404, 405, 410, 451}
"""HTTP answers that another try won't change."""


class Ran(Protocol):
    """What running a script gives."""

    @property
    def rc(self) -> int: ...

    @property
    def stderr(self) -> str: ...


class Run(Protocol):
    """Runs a shell script as root on the host: `Connection.run`, or a shell of this machine."""

    def __call__(
        self,
        script: str,
        *,
        args: Mapping[str, str],
        deadline_s: float,
        stdin: bytes,
        on_line: Callable[[str], None],
    ) -> Ran: ...


@dataclass
class _Seen:
    """What one run of the script told."""

    have: int = 0
    space: tuple[int, int] = (0, 0)
    error: str = ""

    def line(self, line: str) -> bool:
        """Take a line; True when it tells bytes."""
        word, _, rest = line.partition(" ")
        if word == "have":
            self.have = int(rest)
        elif word == "space":
            needed, available = rest.split()
            self.space = (int(needed), int(available))
        elif word == "error":
            self.error = rest.strip()
        return word == "have"


@dataclass
class _Download:
    run: Run
    operation: Fetch
    secrets: Secrets
    progress: Callable[[int, int], None]
    note: Callable[[str], None]
    sleep: Callable[[float], None]
    deadline: float
    had: int = 0
    reasons: list[str] = field(default_factory=list)

    def from_url(self, url: str, *, last: bool) -> bool:
        """Try one source; True: the blob is there. False: give it up, the reason is kept.

        A source that stalls is left for the next at once; `last`: there is no next, so it is asked again.
        """
        failures = 0
        while True:
            code, seen = self._attempt(url)
            if code == 0:
                return True
            self._refuse_hopeless(code, seen)
            if code in (_WRONG, _TOO_LONG):
                self.had = 0
                raise _WrongBytes(_host(url))
            reason = seen.error or f"the script ended with {code}"
            stalled = _STALLED in reason
            # What brought bytes was worth it; only tries in a row that brought none count.
            failures = 1 if seen.have > self.had and not stalled else failures + 1
            self.had = 0 if code == _NO_RESUME else seen.have
            status = _STATUS.search(reason)
            hopeless = status is not None and int(status[1]) in _GIVE_UP
            if failures >= _TRIES or hopeless or (stalled and not last):
                self.reasons.append(f"{_host(url)}: {reason}")
                self.note(f"no file from {self.reasons[-1]}")
                return False
            self.note(f"download from {_host(url)} broke off ({reason}); trying again")
            self.sleep(min(2.0 ** (failures - 1), 8.0))

    def _attempt(self, url: str) -> tuple[int, _Seen]:
        file, seen = self.operation.file, _Seen(have=self.had)
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OperationFailed(f"{file.name} was not fetched in {self.operation.deadline_s} s")

        def line(text: str) -> None:
            if seen.line(text):
                self.progress(seen.have, file.size)

        args = {
            "dir": self.operation.weights_dir,
            "sha": file.sha256,
            "size": str(file.size),
            "state": STATE_DIR,
        }
        config = curl_config(file, url, self.operation.stall_s, self.secrets)
        done = self.run(SCRIPT, args=args, deadline_s=left, stdin=config.encode(), on_line=line)
        if done.rc != 0 and not seen.error:
            seen.error = done.stderr.strip().rpartition("\n")[2]
        return done.rc, seen

    def _refuse_hopeless(self, code: int, seen: _Seen) -> None:
        """Raise for what no other source would change."""
        name, folder = self.operation.file.name, self.operation.weights_dir
        if code == _MISSING:
            raise NotYet(
                f"{name} can't be fetched: the host has no {seen.error}",
                do=f"install {seen.error} on the host; streaming through the controller comes later",
            )
        if code == _OLD_CURL:
            raise HostError(
                f"{name} needs a token, and curl before 7.58, as the host has, would pass it on",
                do="update curl on the host",
            )
        if code == _NO_SPACE:
            needed, available = (n / 2**30 for n in seen.space)
            raise HostError(
                f"{name} needs {needed:.1f} GiB in {folder}, {available:.1f} GiB are free",
                do="free space, or set `dirs: weights:` to a larger file system",
            )
        if code == _BUSY:
            raise OperationFailed(
                f"{name}: {seen.error}", do="wait for it to end, or end that process, then apply again"
            )


class _WrongBytes(Exception):
    """A source gave something else than the file."""


SCRIPT = resources.files("cpudeploy.execute").joinpath("scripts/fetch.sh").read_text(encoding="utf-8")


def fetch(
    run: Run,
    operation: Fetch,
    secrets: Secrets,
    progress: Callable[[int, int], None],
    note: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Bring `operation.file` into the host's blobs. `progress(done, total)` in bytes."""
    file = operation.file
    if operation.via == "controller":
        raise NotYet("files can't be streamed through the controller yet", do="use `fetch: host`")
    deadline = time.monotonic() + operation.deadline_s
    download = _Download(run, operation, secrets, progress, note, sleep, deadline)
    wrong: list[str] = []
    for url in _sources(file, wrong):
        try:
            if download.from_url(url, last=url == file.urls[-1]):
                return
        except _WrongBytes as error:
            wrong.append(str(error))
            note(f"{file.name} from {error} has the wrong checksum; discarded")
    if wrong:
        raise HubError(
            f"{file.name} from {' and '.join(dict.fromkeys(wrong))} is not the file the plan names "
            f"(sha256 {file.sha256[:12]}…)",
            do="plan again; if it stays, the mirror holds a damaged or another file",
        )
    raise HubError(
        f"{file.name} could not be fetched from {'; '.join(download.reasons)}",
        do="check that the host reaches it, or set a mirror under `mirrors:`",
    )


def _sources(file: WeightFile, wrong: list[str]) -> Iterator[str]:
    """Every URL in order, but after wrong bytes one more try only; a lone source gets that try itself."""
    for url in file.urls:
        if len(wrong) > 1:
            return
        yield url
    if len(wrong) == 1 and len(file.urls) == 1:
        yield file.urls[0]


def curl_config(file: WeightFile, url: str, stall_s: int, secrets: Secrets) -> str:
    """Everything curl is told, token included: for its standard input only."""
    options = {
        "url": url,
        "connect-timeout": "20",
        "speed-limit": "1",
        "speed-time": str(stall_s),
        "max-redirs": "10",
        "user-agent": "cpudeploy",
    }
    if urlsplit(url).scheme == "https":
        options["proto-redir"] = "=https"
    if file.token is not None and _belongs(url, file.token_for):
        options["header"] = f"Authorization: Bearer {secrets.get(file.token).reveal()}"
    flags = ["fail", "location", "silent", "show-error"]
    return "\n".join(flags + [f'{name} = "{_quoted(value)}"' for name, value in options.items()])


def _belongs(url: str, prefix: str) -> bool:
    """Whether the token may go to `url`: same scheme and host as `prefix`, and below its path."""
    if not prefix:
        return False
    mine, theirs = urlsplit(prefix), urlsplit(url)
    return (mine.scheme, mine.netloc) == (theirs.scheme, theirs.netloc) and theirs.path.startswith(mine.path)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "")


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
