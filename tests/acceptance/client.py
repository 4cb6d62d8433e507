"""A steady client of a model's published port: a new connection every few milliseconds, from this machine.

In: an address and a port. Out: how many requests had an answer, and the longest time in which none did.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

EVERY_S = 0.01
_ANSWER_S = 2.0


@dataclass(frozen=True)
class Seen:
    """`longest_s`: from the last answer before a failure to the first one after it."""

    answered: int
    failed: int
    longest_s: float


class SteadyClient:
    """Asks `GET /health`, which needs no key, as long as the context lasts."""

    def __init__(self, address: str, port: int) -> None:
        self._where = (address, port)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._answered = self._failed = 0
        self._longest_s = 0.0
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    @property
    def seen(self) -> Seen:
        return Seen(self._answered, self._failed, self._longest_s)

    def wait_for_answers(self, number: int) -> None:
        """Until there were so many answers; fails when they don't come."""
        give_up = time.monotonic() + 60
        while self._answered < number:
            assert time.monotonic() < give_up, "nobody answers any more"
            time.sleep(EVERY_S)

    def _ask(self) -> None:
        failing = False
        while not self._over.is_set():
            begun = time.monotonic()
            if self._answers():
                if failing:
                    self._longest_s = max(self._longest_s, time.monotonic() - self._last)
                self._last, failing = time.monotonic(), False
                self._answered += 1
            else:
                failing = True
                self._failed += 1
            self._over.wait(max(0.0, EVERY_S - (time.monotonic() - begun)))
        if failing:
            self._longest_s = max(self._longest_s, time.monotonic() - self._last)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(*self._where, timeout=_ANSWER_S)
        try:
            connection.request("GET", "/health")
            response = connection.getresponse()
            response.read()
            return response.status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class LongRequest:
    """One streamed completion of `tokens` tokens, begun at once. `whole`: it came to its own end."""

    def __init__(self, address: str, port: int, key: str, tokens: int) -> None:
        self._connection = http.client.HTTPConnection(address, port, timeout=120)
        body = {"prompt": "Once", "max_tokens": tokens, "ignore_eos": True, "stream": True}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        self._connection.request("POST", "/v1/completions", json.dumps(body), headers)
        self._response = self._connection.getresponse()
        self._first = self._response.readline()
        self.whole = False
        self.tokens = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self) -> bool:
        """Until it ended, either way; whether it came to its own end."""
        self._thread.join(timeout=180)
        self._connection.close()
        return self.whole

    def _read(self) -> None:
        try:
            for line in self._response:
                if line.startswith(b"data: [DONE]"):
                    self.whole = True
                    return
                self.tokens += line.startswith(b"data: ")
        except (OSError, http.client.HTTPException):
            return
