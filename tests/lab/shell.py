"""Running commands and telling how long things take.

In: argument lists (never a shell string). Out: their output, or LabError with the end of what they said.
Must never print a secret: commands take secrets on standard input or from files only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class LabError(RuntimeError):
    """Something the lab needs did not work; the message says what and shows the tool's last lines."""


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    timeout: float | None = 600,
) -> subprocess.CompletedProcess[str]:
    """Run a command with its output captured as text."""
    words = [str(word) for word in argv]
    data = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        raw = subprocess.run(
            words,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            env=env,
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(f"{words[0]}: no such command") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(words)}: no end after {timeout:.0f} s") from error
    done = subprocess.CompletedProcess(
        words, raw.returncode, raw.stdout.decode(errors="replace"), raw.stderr.decode(errors="replace")
    )
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(words)}: exit {done.returncode}\n{tail(done.stderr or done.stdout)}")
    return done


def tail(text: str, lines: int = 15) -> str:
    """The last lines of a tool's output, for error messages."""
    return "\n".join(text.strip().splitlines()[-lines:])


def say(text: str) -> None:
    """One line of progress on standard error."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file that others may read or write at the same time: they see all of it, or the old one."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.rename(path)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Tell what was done and how long it took; stay silent about things that took no time."""
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    if took >= 0.5:
        say(f"{what}: {took:.1f} s")


def wait_until(what: str, ready: Callable[[], object], deadline_s: float, every_s: float = 0.1) -> None:
    """Call `ready` until it returns something true; LabError past the deadline."""
    end = time.monotonic() + deadline_s
    while not ready():
        if time.monotonic() > end:
            raise LabError(f"{what}: not ready after {deadline_s:.0f} s")
        time.sleep(every_s)
