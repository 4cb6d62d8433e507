"""Clients of one server, and what they see: a fixed number of requests at a time, each streamed.

In: an address and how many at a time. Out: every answer's duration, time to its first token and tokens, which
are the server's own `usage`. It runs beside what it measures, so it does as little as it can: a thread a
client, and of a stream only the first token and the last event are parsed.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import json
import random
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

SILENCE_S = 30
"""A server that says nothing for so long has failed."""
OVERTIME_S = 10
"""How long a point waits for what is under way when its time is over; then that counts as far as it came."""
FIRST_TOKEN, LAST_TOKEN = 1000, 40000
"""Token ids to make prompts of, all of them words in the vocabulary of SmolLM2."""
TEXT = re.compile(rb'"text":\s?"[^"]')
EVENT = b"data: "


class LoadError(RuntimeError):
    """The server did not answer; the message says how."""


class Answer(msgspec.Struct, frozen=True):
    """One request. seconds, ttft: from sending to the end, and to the first token: its first text, or where
    no token makes text the first event. tokens: of the answer; counted by events where `cut`, which says that
    it was not let end."""

    seconds: float
    ttft: float
    tokens: int
    cut: bool = False


@dataclass(frozen=True)
class Target:
    """A server with OpenAI's API. prompt, answer: tokens."""

    address: str
    port: int
    model: str
    key: str
    prompt: int = 256
    answer: int = 64


@dataclass
class Point:
    """`clients` at work on one server, each with its next request as soon as the last is done.

    Requests that begin within `seconds` count. While one of those is under way all clients go on, so that
    none is answered by a server with less to do.
    """

    target: Target
    clients: int
    seconds: float
    seed: int
    answers: list[Answer] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counted: int = 0
    _others: set[http.client.HTTPConnection] = field(default_factory=set)
    _over: bool = False

    def measure(self) -> list[Answer]:
        """All answers that count. Raises LoadError."""
        self._end = time.monotonic() + self.seconds
        with ThreadPoolExecutor(self.clients) as pool:
            clients = [pool.submit(self._work, number) for number in range(self.clients)]
            try:
                for client in clients:
                    client.result()
            finally:
                self._stop()  # the pool waits for all, also where somebody interrupts
        return self.answers

    def _work(self, number: int) -> None:
        prompts = random.Random(f"{self.seed} {number}")  # noqa: S311
        while True:
            with self._lock:
                counts = time.monotonic() < self._end and not self._over
                if self._over or not (counts or self._counted):
                    return
                self._counted += counts
            try:
                answer = self._ask(prompts, counts)
            except BaseException:
                self._stop()
                raise
            with self._lock:
                self._counted -= counts
                if counts and answer:
                    self.answers.append(answer)
                last = counts and not self._counted and time.monotonic() >= self._end
            if last:
                self._stop()

    def _stop(self) -> None:
        """End the requests that don't count, and begin no more."""
        with self._lock:
            self._over = True
            for connection in self._others:
                if connection.sock:
                    with contextlib.suppress(OSError):  # it has ended already
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def _ask(self, prompts: random.Random, counts: bool) -> Answer | None:
        """One request; None where it is ended because it does not count."""
        connection = http.client.HTTPConnection(self.target.address, self.target.port, timeout=SILENCE_S)
        if not counts:
            with self._lock:
                self._others.add(connection)
        try:
            return self._exchange(connection, prompts)
        except TimeoutError as error:
            raise LoadError(f"no token within {SILENCE_S} s") from error
        except (OSError, http.client.HTTPException) as error:
            if not counts and self._over:
                return None
            raise LoadError(f"the connection ended: {error or type(error).__name__}") from error
        finally:
            with self._lock:
                self._others.discard(connection)
            connection.close()

    def _exchange(self, connection: http.client.HTTPConnection, prompts: random.Random) -> Answer | None:
        target = self.target
        body = {
            "model": target.model,
            # Another first token each time: no cache of prompts has seen it.
            "prompt": [prompts.randrange(FIRST_TOKEN, LAST_TOKEN) for _ in range(target.prompt)],
            "max_tokens": target.answer,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {target.key}"}
        text = json.dumps(body)
        began = time.monotonic()
        connection.request("POST", "/v1/completions", text, headers)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise LoadError(f"HTTP {answer.status}: {answer.read(300).decode(errors='replace')}")
        return self._read(answer, began)

    def _read(self, answer: http.client.HTTPResponse, began: float) -> Answer | None:
        first, text, events, tail = 0.0, 0.0, 0, b""
        while part := answer.read1(65536):
            tail = tail[-4096:] + part
            events += part.count(EVENT)
            if not first and events:
                first = time.monotonic() - began
            if not text and TEXT.search(tail):
                text = time.monotonic() - began
            if self._over or time.monotonic() > self._end + OVERTIME_S:
                spent = time.monotonic() - began
                return Answer(spent, text or first, events, cut=True) if events else None
        seconds = time.monotonic() - began
        if self._over:
            return None
        tokens = told_tokens(tail)
        if tokens != self.target.answer:
            raise LoadError(f"an answer of {tokens} tokens, not {self.target.answer}")
        return Answer(seconds, text or first, tokens)


def told_tokens(tail: bytes) -> int:
    """Completion tokens by the `usage` at the end of a stream."""
    for line in reversed(tail.splitlines()):
        if (
            line.startswith(EVENT)
            and b'"usage"' in line
            and (usage := json.loads(line[len(EVENT) :])["usage"])
        ):
            return int(usage["completion_tokens"])
    raise LoadError(f"a stream without usage at its end: {tail[-200:].decode(errors='replace')}")


def warm_up(target: Target) -> None:
    """A request that nobody measures. Raises LoadError."""
    Point(target, clients=1, seconds=0.001, seed=-1).measure()
