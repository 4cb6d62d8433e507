"""`python -m benchmarks.gap`: for how long nobody serves while a new version takes over, both ways.

In: a lab of its own with a host for each engine. Out: a Markdown table on standard output; progress on
standard error. A steady client makes a new connection every 10 ms to the model's published port while the
real command applies a changed context; then a streamed answer is under way when the change begins, with a
time to drain and without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.acceptance.client import LongRequest, Seen, SteadyClient
from tests.acceptance.site import Site, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.lab.shell import LabError, say

LAB = ("gap", "10.77.6.0/24")
HOSTS = {
    "Debian 12, Docker 20.10": HostSpec("gap12"),
    "Debian 13, Docker 26.1": HostSpec("gap13", "trixie"),
}
WAYS = ("beside", "stop-first")
PORT = 8100
DRAIN = {"drain: 60s": "60s", "drain: 0": 0}
LONG_S = 8
"""How long the answer under way is to take, about."""
MOST_TOKENS = 7000
_TRIED_TOKENS = 500


@dataclass(frozen=True)
class Row:
    engine: str
    way: str
    seen: list[Seen]


def main() -> int:
    """Deploy, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gap")
    parser.add_argument("--rounds", type=int, default=5, help="changes a way, 0 for drain alone (5)")
    parser.add_argument("--hosts", type=int, default=len(HOSTS), help="how many of the engines (all)")
    parser.add_argument("--lab", default=" ".join(LAB), help="name and subnet (default: %(default)s)")
    options = parser.parse_args()
    lab = Lab(*options.lab.split())
    chosen = dict(list(HOSTS.items())[: options.hosts])
    try:
        lab.up(list(chosen.values()))
        with tempfile.TemporaryDirectory() as folder:
            site = make_site(lab, Path(folder), *(spec.name for spec in chosen.values()))
            site.manifest["models"]["tiny"]["listen"] = str(lab.subnet)
            site.run("apply")
            rows = [
                Row(engine, way, [one_round(site, spec.name, way) for _ in range(options.rounds)])
                for engine, spec in chosen.items()
                for way in WAYS
            ]
            if options.rounds:
                print("\n".join(table(rows)), end="\n\n", flush=True)
            print("\n".join(drained(site, chosen)))
        print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f}.")
    except LabError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    finally:
        lab.down()
    return 0


def changed(site: Site, way: str, drain: str | int = 10) -> None:
    """Another wish, to be brought about in a way."""
    model = site.manifest["models"]["tiny"]
    model["context"] += 256 if model["context"] % 512 == 0 else -256
    model["replace"], model["drain"] = way, drain


def one_round(site: Site, host: str, way: str) -> Seen:
    changed(site, way)
    with SteadyClient(site.lab.hosts[host].address, PORT) as client:
        site.run("apply", "--limit", host)
        time.sleep(1)
    say(f"{host} {way}: {client.seen}")
    return client.seen


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| engine | way | longest time without an answer: median (least to most) | requests that failed |",
        "|---|---|---|---|",
    ]
    for row in rows:
        gaps = [seen.longest_s for seen in row.seen]
        failed, asked = sum(s.failed for s in row.seen), sum(s.failed + s.answered for s in row.seen)
        lines.append(
            f"| {row.engine} | {row.way} | {median(gaps):.2f} s ({min(gaps):.2f} to {max(gaps):.2f}) | "
            f"{failed} of {asked} |"
        )
    return lines


def drained(site: Site, hosts: dict[str, HostSpec]) -> list[str]:
    """What becomes of an answer that is under way when its server is replaced."""
    site.manifest["models"]["tiny"].update(context=8192, replace="auto")
    site.run("apply")
    lines = ["| engine | way | " + " | ".join(DRAIN) + " |", "|---|---|" + "---|" * len(DRAIN)]
    for engine, spec in hosts.items():
        for way in WAYS:
            ends = [under_way(site, spec.name, way, drain) for drain in DRAIN.values()]
            lines.append(f"| {engine} | {way} | {' | '.join(ends)} |")
    return lines


def under_way(site: Site, host: str, way: str, drain: str | int) -> str:
    """Begin an answer just before the old one would be interrupted; tell how it ended."""
    address = site.lab.hosts[host].address
    begun = time.monotonic()
    LongRequest(address, PORT, site.api_key, _TRIED_TOKENS).wait()
    tokens = int(_TRIED_TOKENS * LONG_S / (time.monotonic() - begun))
    changed(site, way, drain)
    process = site.start("apply", "--limit", host)
    wait_for(process, "wait until rag_tiny_0_next serves" if way == "beside" else "arm guard")
    request = LongRequest(address, PORT, site.api_key, max(_TRIED_TOKENS, min(tokens, MOST_TOKENS)))
    whole = request.wait()
    process.communicate(timeout=300)
    say(f"{host} {way} drain {drain}: {request.tokens} tokens, {'whole' if whole else 'cut'}")
    return "came whole" if whole else f"was cut after {request.tokens} tokens"


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise LabError(f"the command ended before it said {text!r}")


if __name__ == "__main__":
    raise SystemExit(main())
