"""`python -m benchmarks.threads`: the thread setting we render against the engine's own default.

In: a lab of its own with three hosts, which may use all, half or a quarter of a two-core machine. Out: a
Markdown table on standard output; progress on standard error. A model is deployed by the real command;
beside it the same image is started with the same limits and arguments but for the thread flags. Both answer
the same request in turn, one stopped while the other works, so what else the machine does meets both.
Speeds are the server's own `timings`, never a clock of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.acceptance.site import make_site
from tests.lab.hosts import Host, HostSpec
from tests.lab.lab import Lab
from tests.lab.shell import LabError, say, wait_until

LAB = ("bench", "10.77.5.0/24")
HOSTS = {
    "two cores": HostSpec("cores"),
    "half a core's time (quota)": HostSpec("quota", quota=0.5),
    "one of two cores (cpuset)": HostSpec("cpuset", cpus="1"),
}
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF"
PROMPT_TOKENS, ANSWER_TOKENS = 256, 64
THREAD_FLAGS = ("--threads", "--threads-batch")
QUIET_LOAD, QUIET_WAIT_S = 0.7, 60
REQUEST_S = 15
"""A request is cut here; what it did until then counts."""
CURL_TIMED_OUT = 28
ALL_S = 540
"""When no new round begins any more; each host gets an equal part of what is left."""


@dataclass(frozen=True)
class Server:
    """One llama-server of a host: its container, and its port on the host's loopback."""

    container: str
    port: int


OURS = Server("bench_smollm2_0", 8100)
DEFAULT = Server("engine-default", 8101)


@dataclass(frozen=True)
class Speed:
    """Tokens per second of one request; `cut` when it was not let end."""

    prompt: float
    decode: float
    cut: bool


@dataclass(frozen=True)
class Row:
    """One host: the threads its servers told, and the speeds of every round, ours first."""

    host: str
    threads: tuple[str, str]
    rounds: list[tuple[Speed, Speed]]


def main() -> int:
    """Deploy, measure, print; 0 when every host has a row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads")
    parser.add_argument(
        "--rounds", type=int, default=9, help="requests to each server (default: %(default)s)"
    )
    options = parser.parse_args()
    lab = Lab(*LAB)
    end = time.monotonic() + ALL_S
    try:
        lab.down()
        lab.up(list(HOSTS.values()))
        deploy(lab)
        hosts = {title: lab.hosts[spec.name] for title, spec in HOSTS.items()}
        for host in hosts.values():
            start_default(host)
        before = wait_for_quiet()
        rows: list[Row] = []
        for title, host in hosts.items():
            share = (end - time.monotonic()) / (len(hosts) - len(rows))
            rows.append(measure(title, host, options.rounds, share))
        print("\n".join(table(rows)))
        print(f"\nLoad of the machine: {before:.1f} before, {os.getloadavg()[0]:.1f} after.")
    except LabError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    finally:
        lab.down()
    return 0


def deploy(lab: Lab) -> None:
    """The model on all hosts, as a user would deploy it."""
    names = [spec.name for spec in HOSTS.values()]
    with tempfile.TemporaryDirectory() as folder:
        site = make_site(lab, Path(folder), *names, name="bench")
        site.manifest["models"] = {
            "smollm2": {
                "source": {"huggingface": MODEL},
                "backend": "llama",
                "on": names,
                "port": OURS.port,
                "context": 1024,
                "parallel": 1,
            }
        }
        say(f"apply on {', '.join(names)}")
        site.run("apply")


def start_default(host: Host) -> None:
    """Beside ours, stopped from here on, the same server without thread flags; then stopped too."""
    found = json.loads(docker(host, "inspect", OURS.container))[0]
    limits = found["HostConfig"]
    stop(host, OURS)
    mounts = [f"{mount['Source']}:{mount['Destination']}:ro" for mount in found["Mounts"]]
    folders = [f"{folder}:{options}" for folder, options in limits["Tmpfs"].items()]
    docker(
        *(host, "run", "--detach", "--name", DEFAULT.container, "--no-healthcheck", "--read-only"),
        *("--cpuset-cpus", limits["CpusetCpus"], "--memory", str(limits["Memory"])),
        *("--memory-swap", str(limits["MemorySwap"]), "--network", "bench_pub"),
        *("--publish", f"127.0.0.1:{DEFAULT.port}:8080"),
        *(word for mount in mounts for word in ("--volume", mount)),
        *(word for folder in folders for word in ("--tmpfs", folder)),
        *(found["Image"], *without_threads(found["Config"]["Cmd"])),
    )
    health = ["curl", "-sf", "-m", "5", f"http://127.0.0.1:{DEFAULT.port}/health"]
    wait_until(f"{DEFAULT.container} on {host.name}", lambda: host.exec(health).returncode == 0, 120)
    stop(host, DEFAULT)


def without_threads(command: Sequence[str]) -> Iterator[str]:
    """The arguments but for the thread flags and their values."""
    words = iter(command)
    for word in words:
        if word in THREAD_FLAGS:
            next(words)
        else:
            yield word


def wait_for_quiet() -> float:
    """Give the machine a while to come to rest; the load it then has."""
    end = time.monotonic() + QUIET_WAIT_S
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < end:
        time.sleep(2)
    return os.getloadavg()[0]


def measure(title: str, host: Host, rounds: int, seconds: float) -> Row:
    """A request to warm up, then `rounds` to each server, as far as the time goes; they take turns in who
    is first."""
    end = time.monotonic() + seconds
    pairs = []
    for number in range(rounds + 1):
        order = (OURS, DEFAULT) if number % 2 else (DEFAULT, OURS)
        speeds = {server: ask(host, server) for server in order}
        pair = speeds[OURS], speeds[DEFAULT]
        shown = " against ".join(f"{speed.prompt:.1f} / {speed.decode:.1f}" for speed in pair)
        say(f"{title}: {shown} tokens/s" + ("" if number else " (warm-up)"))
        if number:
            pairs.append(pair)
        if pairs and time.monotonic() > end:
            break
    return Row(title, (threads(host, OURS), threads(host, DEFAULT)), pairs)


def ask(host: Host, server: Server) -> Speed:
    """One completion while the other server is stopped. The prompt is the same tokens every time."""
    body = {
        "prompt": [1000 + 37 * position for position in range(PROMPT_TOKENS)],
        "n_predict": ANSWER_TOKENS,
        "ignore_eos": True,
        "temperature": 0,
        "cache_prompt": False,
        "stream": True,
        "timings_per_token": True,
    }
    url = f"http://127.0.0.1:{server.port}/completion"
    with running(host, server):
        done = host.exec(["curl", "-sSN", "-m", str(REQUEST_S), "-d", "@-", url], stdin=json.dumps(body))
    if done.returncode not in (0, CURL_TIMED_OUT):
        raise LabError(f"{server.container} on {host.name}: {done.stderr.strip()}")
    told = [json.loads(line.removeprefix("data: ")) for line in done.stdout.split("\n\n")[:-1]]
    timings: dict[str, Any] = next((event["timings"] for event in reversed(told) if "timings" in event), {})
    if not timings:  # not even the prompt: it was slower than this, and the answer can only be guessed
        raise LabError(f"{server.container} on {host.name}: no token within {REQUEST_S} s")
    cut = done.returncode == CURL_TIMED_OUT
    if timings["prompt_n"] != PROMPT_TOKENS or (timings["predicted_n"] != ANSWER_TOKENS and not cut):
        raise LabError(f"{server.container} on {host.name} did other work than was asked: {timings}")
    return Speed(timings["prompt_per_second"], timings["predicted_per_second"], cut)


@contextmanager
def running(host: Host, server: Server) -> Iterator[None]:
    """The server going on, and stopped again."""
    docker(host, "kill", "--signal", "CONT", server.container)
    try:
        yield
    finally:
        stop(host, server)


def stop(host: Host, server: Server) -> None:
    """Stop the server where it is. Not by `docker pause`: what a control group freezes can't be killed,
    and neither can the host around it."""
    docker(host, "kill", "--signal", "STOP", server.container)


def threads(host: Host, server: Server) -> str:
    """Threads for decoding, as the server's log tells."""
    found = re.search(r"n_threads = (\d+)", docker(host, "logs", server.container))
    return found[1] if found else "?"


def docker(host: Host, *words: str) -> str:
    """A command to the host's own engine; what it printed, on either stream."""
    done = host.exec(["docker", *words])
    if done.returncode != 0:
        raise LabError(f"docker {words[0]} on {host.name}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Medians, ours / default, and the median of the ratios within each round."""
    yield "| host may use | threads | prompt, tokens/s | ratio | answer, tokens/s | ratio | rounds |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        cells = [row.host, " / ".join(row.threads)]
        for kind in ("prompt", "decode"):
            pairs = [(getattr(ours, kind), getattr(default, kind)) for ours, default in row.rounds]
            ours, default = (median(speeds) for speeds in zip(*pairs, strict=True))
            cells.append(f"{ours:.1f} / {default:.1f}")
            cells.append(f"{median(ours / default for ours, default in pairs):.2f}")
        cut = sum(default.cut for _, default in row.rounds)
        cells.append(
            f"{len(row.rounds)}" + (f", {cut} of the default's cut after {REQUEST_S} s" if cut else "")
        )
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
