"""Which faults are tried, and when in an upgrade they happen. Names are stable: `--case NAME` repeats one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Way = Literal["stop-first", "beside"]
Fault = Literal["kill", "cut", "unplug", "engine-restart", "engine-kill", "host-restart"]

WAYS: tuple[Way, ...] = ("stop-first", "beside")
RANDOM_KILLS = 20

IN_WORDS: dict[Fault, str] = {
    "kill": "controller killed (SIGKILL)",
    "cut": "connection cut (the host's sshd session killed)",
    "unplug": "host off the network until the apply has ended",
    "engine-restart": "dockerd restarted",
    "engine-kill": "dockerd killed (SIGKILL)",
    "host-restart": "host restarted",
}

CHOSEN: tuple[tuple[Way, Fault, str], ...] = (
    ("stop-first", "cut", "create rag_tiny_0"),
    ("stop-first", "unplug", "start rag_tiny_0"),
    ("stop-first", "engine-restart", "create rag_tiny_0"),
    ("stop-first", "engine-kill", "wait until rag_tiny_0 serves"),
    ("stop-first", "host-restart", "create rag_tiny_0"),
    ("stop-first", "host-restart", "note that rag_tiny_0 serves"),
    ("beside", "cut", "rename rag_tiny_0_next to rag_tiny_0"),
    ("beside", "cut", "connect rag_tiny_0 to rag_pub"),
    ("beside", "unplug", "connect rag_tiny_0 to rag_pub"),
    ("beside", "engine-restart", "wait until rag_tiny_0_next serves"),
    ("beside", "engine-kill", "disconnect rag_tiny_0_old from rag_pub"),
    ("beside", "host-restart", "connect rag_tiny_0 to rag_pub"),
)
"""Where everything but a kill happens: before the step of that name."""


@dataclass(frozen=True)
class Case:
    """One fault in one upgrade: before the step `at` (its name, or counted from 0), or `after_s` seconds after
    the first."""

    name: str
    way: Way
    fault: Fault
    at: str | int | None = None
    after_s: float | None = None


def boundaries(way: Way, steps: Sequence[str]) -> Iterator[Case]:
    """The controller killed before each step of an upgrade."""
    for at, _ in enumerate(steps):
        yield Case(f"{way}/kill-before-{at:02d}", way, "kill", at=at)


def moments(way: Way, seconds: float, seed: int) -> Iterator[Case]:
    """The controller killed at random instants of an upgrade that takes `seconds`; each way has its half."""
    dice = random.Random(f"{seed} {way}")
    for number in range(RANDOM_KILLS // len(WAYS)):
        yield Case(f"{way}/kill-random-{number:02d}", way, "kill", after_s=round(dice.uniform(0, seconds), 3))


def chosen(way: Way) -> Iterator[Case]:
    """The other faults, where they hurt."""
    for of, fault, step in CHOSEN:
        if of == way:
            yield before(way, fault, step)


def before(way: Way, fault: Fault, step: str) -> Case:
    """A fault before a step of that name."""
    return Case(f"{way}/{fault}-before-{step.replace(' ', '-')}", way, fault, at=step)


def sample() -> tuple[Case, ...]:
    """A few of all, for every day: a fault of each kind. Kills where a host is least whole are among the
    tests of replacing."""
    return (
        before("stop-first", "kill", "commit guard rag_tiny_0"),
        before("stop-first", "engine-restart", "create rag_tiny_0"),
        before("stop-first", "host-restart", "create rag_tiny_0"),
        before("stop-first", "unplug", "start rag_tiny_0"),
        before("beside", "cut", "rename rag_tiny_0_next to rag_tiny_0"),
    )
