"""One weights file onto a host, by the host's own curl, streamed or sent from here. Ways, sources and retries
are decided here; how one way gets the bytes over is `by_curl`, `streamed` and `uploaded`. The token goes only
where it belongs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import CpudeployError, HostError, HubError, OperationFailed
from ..secrets import Secrets
from ..types.operation import Fetch
from .by_curl import curl_attempt
from .fetching import (
    BUSY,
    MISSING,
    NO_RESUME,
    NO_SPACE,
    OLD_CURL,
    TOO_LONG,
    WRONG,
    Attempt,
    Ended,
    Shell,
    place_of,
)
from .streamed import streamed_attempt
from .uploaded import other_file, uploaded_attempt

_TRIES = 5
_GIVE_UP = {400, 401, 403, 404, 405, 410, 451}
"""HTTP answers that another try won't change."""


class _WrongBytes(Exception):
    """A source gave something else than the file."""


class _NotThisWay(Exception):
    """The host can't do it itself, but another way may work."""

    def __init__(self, why: str, error: CpudeployError) -> None:
        super().__init__(why)
        self.error = error


def fetch(
    host: Shell,
    operation: Fetch,
    secrets: Secrets,
    progress: Callable[[int, int], None],
    note: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Bring `operation.file` into the host's blobs. `progress(done, total)` in bytes."""
    deadline = time.monotonic() + operation.deadline_s
    by_host = curl_attempt(host, operation, secrets)
    by_us = streamed_attempt(host, operation, secrets)
    ways = {"host": (by_host,), "controller": (by_us,)}.get(operation.via, (by_host, by_us))
    if operation.file.upload:
        ways = (uploaded_attempt(host, operation),)
    for number, attempt in enumerate(ways, start=1):
        more = number < len(ways)
        download = _Download(attempt, operation, progress, note, sleep, deadline, another_way=more)
        try:
            download.from_anywhere()
            return
        except _NotThisWay as why:
            if not more:
                raise why.error from None
            note(f"{why}: {operation.file.name} is streamed through this machine")


@dataclass
class _Download:
    """One way to get the file. `another_way`: if it doesn't work, there is another."""

    attempt: Attempt
    operation: Fetch
    progress: Callable[[int, int], None]
    note: Callable[[str], None]
    sleep: Callable[[float], None]
    deadline: float
    another_way: bool
    had: int = 0
    answered: bool = False
    reasons: list[str] = field(default_factory=list)

    def from_anywhere(self) -> None:
        """Try source after source. Raises _NotThisWay, or what no other source would change."""
        file = self.operation.file
        wrong: list[str] = []
        urls = file.urls or (file.upload,)
        for url in _sources(urls, wrong):
            try:
                if self._from_url(url, last=url == urls[-1] and not self.another_way):
                    return
            except _WrongBytes as source:
                wrong.append(str(source))
                self.note(f"{file.name} from {source} has the wrong checksum; discarded")
        if wrong and file.upload:
            raise other_file(file, "it changed since this was planned")
        if wrong:
            raise HubError(
                f"{file.name} from {' and '.join(dict.fromkeys(wrong))} is not the file the plan names "
                f"(sha256 {file.sha256[:12]}…)",
                do="plan again; if it stays, the mirror holds a damaged or another file",
            )
        error = HubError(
            f"{file.name} could not be fetched from {'; '.join(self.reasons)}",
            do="check that it is reached from there, or set a mirror under `mirrors:`",
        )
        if self.answered:  # who answers the host and has not got it won't have it for us either
            raise error
        raise _NotThisWay("the host does not reach where the file is", error)

    def _from_url(self, url: str, *, last: bool) -> bool:
        """Try one source; True: the blob is there. False: give it up, the reason is kept.

        A source that stalls is left for the next at once; `last`: there is no next, so it is asked again.
        """
        failures = 0
        while True:
            ended = self._once(url)
            if ended.code == 0:
                return True
            self._refuse_hopeless(ended)
            if ended.code in (WRONG, TOO_LONG):
                self.had = 0
                raise _WrongBytes(place_of(url))
            reason = ended.error or f"the script ended with {ended.code}"
            self.answered = self.answered or ended.status is not None
            # What brought bytes was worth it; only tries in a row that brought none count.
            failures = 1 if ended.have > self.had and not ended.stalled else failures + 1
            self.had = 0 if ended.code == NO_RESUME else ended.have
            hopeless = ended.status in _GIVE_UP
            if failures >= _TRIES or hopeless or (ended.stalled and not last):
                self.reasons.append(f"{place_of(url)}: {reason}")
                self.note(f"no file from {self.reasons[-1]}")
                return False
            self.note(f"download from {place_of(url)} broke off ({reason}); trying again")
            self.sleep(min(2.0 ** (failures - 1), 8.0))

    def _once(self, url: str) -> Ended:
        file = self.operation.file
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OperationFailed(f"{file.name} was not fetched in {self.operation.deadline_s} s")
        return self.attempt(url, self.had, left, lambda have: self.progress(have, file.size))

    def _refuse_hopeless(self, ended: Ended) -> None:
        """Raise for what no other source would change."""
        name, folder = self.operation.file.name, self.operation.weights_dir
        if ended.code == MISSING:
            why = f"the host has no {ended.error}"
            error = HostError(
                f"{name} can't be fetched: {why}",
                do=f"install {ended.error} there, or write `fetch: auto`: then it is streamed from here",
            )
            raise _NotThisWay(why, error)
        if ended.code == OLD_CURL:
            error = HostError(
                f"{name} needs a token, and so old a curl as the host's would pass it on",
                do="update curl on the host, or write `fetch: auto`: then it is streamed from here",
            )
            raise _NotThisWay("the host's curl would pass the token on", error)
        if ended.code == NO_SPACE:
            needed, available = (n / 2**30 for n in ended.space)
            raise HostError(
                f"{name} needs {needed:.1f} GiB in {folder}, {available:.1f} GiB are free",
                do="free space, or set `dirs: weights:` to a larger file system",
            )
        if ended.code == BUSY:
            raise OperationFailed(
                f"{name}: {ended.error}", do="wait for it to end, or end that process, then apply again"
            )


def _sources(urls: Sequence[str], wrong: list[str]) -> Iterator[str]:
    """Every URL in order, but after wrong bytes one more try only.

    Where nobody is left for that, it is whoever gave the last of them: an earlier source, or an earlier
    apply, may have left wrong ones for it to go on from.
    """
    for url in urls:
        if len(wrong) > 1:
            return
        before = len(wrong)
        yield url
    if len(wrong) == 1 and before == 0:
        yield url
