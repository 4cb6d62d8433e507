"""`python -m tests.faults`: break upgrades on real hosts in every way, and write down what came of it.

Writes docs/reliability.json and, from it, docs/reliability.md; with `--case` only says what came of that.
Exit code 1 when a case did not pass.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.faults.bench import Bench, Result
from tests.faults.cases import IN_WORDS, WAYS, Case, Way, boundaries, chosen, moments
from tests.faults.page import failed, page
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.lab.shell import say

DOCS = Path(__file__).parents[2] / "docs"
SEED = 20261130


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 0 when all passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--case", action="append", help="only cases of this name (`*` stands for anything)")
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of the random instants (default: %(default)s)"
    )
    parser.add_argument("--lab", nargs=2, default=["faults", "10.77.77.0/24"], metavar=("NAME", "SUBNET"))
    parser.add_argument(
        "--minutes", type=float, help="begin no case after so long; they come in random order then"
    )
    parser.add_argument("--keep", action="store_true", help="leave the lab up")
    parser.add_argument("--render", action="store_true", help="only write the page anew from the data")
    options = parser.parse_args(arguments)
    if options.render:
        write_page(json.loads((DOCS / "reliability.json").read_text()))
        return 0
    lab = Lab(*options.lab)
    lab.up([HostSpec(f"faults-{way}", "bookworm") for way in WAYS])
    try:
        run = run_all(lab, options.seed, options.case or ["*"], options.minutes)
    finally:
        if not options.keep:
            lab.down()
    if not run["results"]:
        print(f"no case is called {' or '.join(options.case)}", file=sys.stderr)
        return 1
    if not options.case:
        (DOCS / "reliability.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
        write_page(run)
    for result in failed(run):
        print(f"FAILED {result['name']} ({result['when']}): {'; '.join(result['wrong'])}")
        print(f"  again: make faults CASE={result['name']} SEED={options.seed}")
    print(f"{len(run['results']) - len(failed(run))} of {len(run['results'])} cases passed")
    return 1 if failed(run) else 0


def run_all(lab: Lab, seed: int, names: list[str], minutes: float | None) -> dict[str, Any]:
    """Both ways side by side, each on a host of its own; everything that came of it, as data."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, ThreadPoolExecutor(len(WAYS)) as pool:
        asked = [way for way in WAYS if any(fnmatch(way, name.partition("/")[0]) for name in names)]
        jobs = {way: pool.submit(run_way, lab, Path(folder, way), way, seed, names, minutes) for way in asked}
        done = {way: job.result() for way, job in jobs.items()}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seed": seed,
        "minutes": (time.monotonic() - began) / 60,
        "machine": machine(lab),
        "faults": IN_WORDS,
        "ways": {way: about for way, (about, _) in done.items()},
        "results": [result.as_json() for _, results in done.values() for result in results],
    }


def run_way(
    lab: Lab, folder: Path, way: Way, seed: int, names: list[str], minutes: float | None
) -> tuple[dict[str, Any], list[Result]]:
    """One way's cases, one after the other, as many as begin within `minutes`."""
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    folder.mkdir()
    bench = Bench(lab, f"faults-{way}", folder)
    try:
        bench.prepare()
        steps, seconds, silent = bench.undisturbed(way)
        about = {"steps": steps, "seconds": seconds, "silent_s": silent}
        cases = [
            case
            for case in every_case(way, steps, seconds, seed)
            if any(fnmatch(case.name, name) for name in names)
        ]
        if minutes is not None:
            random.Random(f"{seed} {way} order").shuffle(cases)
        results = []
        for case in cases:
            if time.monotonic() > end:
                break
            results.append(told(bench.run(case)))
        about["left_out"] = len(cases) - len(results)
        return about, results
    finally:
        bench.close()


def every_case(way: Way, steps: list[str], seconds: float, seed: int) -> Iterator[Case]:
    """All there are of one way."""
    yield from boundaries(way, steps)
    yield from moments(way, seconds, seed)
    yield from chosen(way)


def told(result: Result) -> Result:
    """Say on stderr how a case went, while the others go on."""
    say(
        f"{result.name} ({result.when}): {'; '.join(result.wrong) or 'passed'}; answered then: {result.serves}"
    )
    return result


def machine(lab: Lab) -> dict[str, Any]:
    """Where it ran, in words."""
    host = next(iter(lab.hosts.values()))
    engine = host.exec(["docker", "version", "--format", "{{.Server.Version}}"]).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    text = (
        f"One machine of {cores} cores ({platform.machine()}), Linux {platform.release().partition('-')[0]}; "
        f"hosts of the lab on it with Debian 12, Docker Engine {engine}, and llama-server with a model of 3.5 MB. "
        "The controller and both ways' hosts share the cores, so the seconds are no measure of speed."
    )
    return {"cores": cores, "engine": engine, "text": text}


def write_page(run: dict[str, Any]) -> None:
    (DOCS / "reliability.md").write_text(page(run))


if __name__ == "__main__":
    sys.exit(main())
