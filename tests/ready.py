"""Commands in processes of their own that need not load Python's modules first.

In: arguments, folder, environment. Out: what tests use of `subprocess.Popen`. A process that has loaded all of
cpudeploy and done nothing else waits on a socket and forks for each command: the child goes through the real
entry point, half a second of loading later than it might.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]


class Command:
    """A command that was started; its output is text."""

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.args = ["cpudeploy", *arguments]
        self.returncode: int | None = None
        out, out_of_it = os.pipe()
        err, err_of_it = os.pipe()
        self._link = socket.socket(socket.AF_UNIX)
        self._link.connect(_server())
        asked = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        socket.send_fds(self._link, [len(asked).to_bytes(4, "big")], [out_of_it, err_of_it])
        self._link.sendall(asked)
        os.close(out_of_it)
        os.close(err_of_it)
        self.stdout: IO[str] = os.fdopen(out)
        self.stderr: IO[str] = os.fdopen(err)
        self.pid = self._number()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; raises TimeoutExpired."""
        if self.returncode is None:
            self._link.settimeout(timeout)
            try:
                self.returncode = self._number()
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All it prints from now on, once it has ended; raises TimeoutExpired, and then ends it."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            parts = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return parts[0].result(), parts[1].result()

    def send_signal(self, number: int) -> None:
        """To the process, while it lives."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()

    def _number(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            part = self._link.recv(1)
            if not part:
                raise RuntimeError("the process that forks commands has ended")
            text += part
        return int(text)


@cache
def _server() -> str:
    """The address of this process's own; it ends with it."""
    address = str(Path(tempfile.mkdtemp(prefix="cpudeploy-ready.")) / "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ready", address],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    _KEPT.append(process)
    return address


_KEPT: list[subprocess.Popen[bytes]] = []
"""So that the end of their input says that we have ended."""


def serve(address: str) -> None:
    """Fork for everybody who comes, until our input ends."""
    import cpudeploy

    for module in pkgutil.walk_packages(cpudeploy.__path__, "cpudeploy."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()  # what is loaded is shared, and no child looks for garbage in it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for commands
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(link)
            return
        link.close()


def _answer(link: socket.socket) -> None:
    """In a process for one command: fork it, tell its process id, and how it ended. Returns in the command's own
    process when that is at its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, outputs, *_ = socket.recv_fds(link, 4, 2)
    size, text = int.from_bytes(head, "big"), b""
    while len(text) < size:
        text += link.recv(size - len(text))
    pid = os.fork()
    if pid == 0:
        link.close()
        _become(json.loads(text), outputs)
        return
    for number in (0, 1, 2, *outputs):
        os.close(number)
    link.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(asked: dict[str, object], outputs: Sequence[int]) -> None:
    """The command, as if this process had been started for it."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, stream in zip((nothing, *outputs), (0, 1, 2), strict=True):
        os.dup2(number, stream)
    os.closerange(3, 256)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(asked["env"])  # type: ignore[arg-type, call-overload]
    sys.argv = ["cpudeploy", *asked["arguments"]]  # type: ignore[misc]
    runpy.run_module("cpudeploy", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(sys.argv[1])
