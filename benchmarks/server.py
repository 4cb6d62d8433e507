"""One server on this machine, its cache filled, and the memory its process tree holds meanwhile.

In: a binary and its arguments. Out: `Usage` by kind of page. A sample is read from the kernel's
`smaps_rollup` of every process of the tree, so memory of a child counts as well.
"""

from __future__ import annotations

import http
import http.client
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SAMPLE_S, TREE_SAMPLE_S = 0.05, 0.2
"""Reading a tree of large processes takes time that they would have had."""
START_S = 1200
REQUEST_S = 1800
ANSWER_TOKENS = 8


@dataclass(frozen=True)
class Usage:
    """Resident bytes: of the process's own (anonymous), shared, and of mapped files."""

    anonymous: int = 0
    shared: int = 0
    file: int = 0

    @property
    def total(self) -> int:
        return self.anonymous + self.shared + self.file


@dataclass
class Server:
    """A server that runs, and the most memory it was seen to hold.

    tree: several processes that map the same libraries, each page of which counts once. Of one process every
    page that it maps counts, also where somebody else's process maps the same file.
    """

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    tree: bool = False
    loaded: Usage = Usage()
    peak: Usage = Usage()
    high_water: int = 0
    start_s: float = 0
    _done: threading.Event = field(default_factory=threading.Event)

    def sample(self) -> Usage:
        """What the tree holds now; keeps the peak."""
        now = _tree_usage(self.process.pid, each_once=self.tree)
        if now.total > self.peak.total:
            self.peak = now
        return now

    def watch(self) -> None:
        """Sample until told to stop."""
        while not self._done.wait(TREE_SAMPLE_S if self.tree else SAMPLE_S):
            self.sample()

    def finish(self) -> None:
        self._done.set()


@contextmanager
def serving(
    binary: Path,
    arguments: Sequence[str],
    *,
    port: int,
    log: Path,
    env: Mapping[str, str] | None = None,
    tree: bool = False,
) -> Iterator[Server]:
    """The server, loaded and healthy; stopped at the end. Raises RuntimeError with its last words.

    env: variables beside ours. tree: whether it consists of several processes (see `Server`).
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(binary), *arguments],
            env={**os.environ, **(env or {})},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    server = Server(process, port, log, tree)
    watcher = threading.Thread(target=server.watch, daemon=True)
    watcher.start()
    began = time.monotonic()
    try:
        _wait_healthy(server)
        server.start_s = time.monotonic() - began
        server.loaded = server.sample()
        yield server
        server.sample()
        server.high_water = _status(process.pid, "VmHWM")
    finally:
        server.finish()
        watcher.join()
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def fill(server: Server, *, context: int, parallel: int, vocabulary: int, seed: int) -> None:
    """Every slot's context full at the same time: prompts of scattered tokens, and a short answer."""
    prompts = [
        [3 + (token * 7919 + slot * 104729 + seed * 15485863) % (vocabulary - 4) for token in tokens]
        for slot, tokens in enumerate([range(context - ANSWER_TOKENS - 2)] * parallel)
    ]

    def ask(slot: int) -> None:
        prompt = prompts[slot]
        for part in (prompt[: len(prompt) // 2], prompt):  # a conversation's second turn leaves more behind
            body = {"prompt": part, "n_predict": ANSWER_TOKENS, "ignore_eos": True, "id_slot": slot}
            told = post(server, "/completion", body)["timings"]
            if told["prompt_n"] + told["cache_n"] != len(part):
                raise RuntimeError(f"slot {slot} read {told['prompt_n']} of {len(part)} tokens")

    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(ask, range(parallel)))


def post(server: Server, path: str, body: dict[str, Any]) -> Any:
    """The answer to a request, from JSON to JSON. Raises RuntimeError with what the server says of it."""
    status, text = _exchange(server.port, "POST", path, json.dumps(body), REQUEST_S)
    if status != http.HTTPStatus.OK:
        raise RuntimeError(f"{path}: {status} {text}")
    return json.loads(text)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def forget(path: Path) -> None:
    """Ask the kernel to drop a file's pages from its cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _wait_healthy(server: Server) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.process.poll() is None:
        try:
            if _exchange(server.port, "GET", "/health", None, 5)[0] == http.HTTPStatus.OK:
                return
        except OSError:
            pass  # not listening yet
        time.sleep(0.1)
    words = server.log.read_text(errors="replace").splitlines()[-12:]
    raise RuntimeError(f"{server.process.args[0]} did not become healthy:\n" + "\n".join(words))


def _exchange(port: int, method: str, path: str, body: str | None, timeout: float) -> tuple[int, str]:
    """Status and text of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def _tree_usage(pid: int, *, each_once: bool) -> Usage:
    total = Usage()
    for each in _tree(pid):
        try:
            text = Path(f"/proc/{each}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        kib = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
        anonymous, shared = kib["Pss_Anon"], kib["Pss_Shmem"]
        # whole, also where another process maps the same file
        mapped = kib["Pss_File"] if each_once else kib["Rss"] - anonymous - shared
        total = Usage(
            total.anonymous + anonymous * 1024, total.shared + shared * 1024, total.file + mapped * 1024
        )
    return total


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from _tree(int(child))


def _status(pid: int, key: str) -> int:
    """Bytes of one line of /proc/PID/status; 0 when it is not there."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0
