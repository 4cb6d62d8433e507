"""`python -m benchmarks.tuning`: what cpudeploy renders, against the engines' defaults and one thing changed.

For llama.cpp and vLLM, on two cores and on one, with 1, 2 and 4 clients. In: a lab of its own with a host for
each engine and number of cores, where the real command deploys SmolLM2-135M-Instruct; a machine of two cores
with nothing else to do. Out: Markdown on standard output, progress on standard error, and every record in
the file of `--keep` as it comes, which `--from` prints. Exit code 1 where ours makes less than 0.95 of what
the best makes.

One start of a server serves all numbers of clients. Settings come in random order, the engines and hosts
in turn, and ours at the start, in the middle and at the end: what the machine does meanwhile meets all alike.
Who beats ours by more than is allowed is measured once more, and ours with it, as far as time goes: of many
equal settings one always looks better. Two starts of one setting differ by a tenth; to decide between a few,
start each several times: `--only` those with `--starts 3`.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from benchmarks import cpu_time, tuning_hosts
from benchmarks.load import LoadError, Point, warm_up
from benchmarks.tuning_hosts import Place
from benchmarks.tuning_report import (
    CLIENTS,
    End,
    Failed,
    LeftOut,
    Measured,
    Record,
    Rendered,
    Results,
    Run,
    plural,
    rate,
    read,
    report,
    ttft,
)
from benchmarks.tuning_settings import LLAMA, OURS, VLLM, Setting, settings
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.lab.shell import LabError, say

LAB = ("tuning", "10.77.6.0/24")
ENGINES = {LLAMA: "llama", VLLM: "vllm"}
CPUSETS = {"two": None, "one": "1"}
QUIET_LOAD = 0.7
GUESSED_START_S = {LLAMA: 8, VLLM: 60}


@dataclass
class Log:
    """All records so far, each of which is in the file at once."""

    file: Path | None
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        self.records.append(record)
        if self.file:
            with self.file.open("ab") as out:
                out.write(msgspec.json.encode(record) + b"\n")


@dataclass(frozen=True)
class Start:
    """One server to start: where, and how."""

    place: Place
    setting: Setting

    def __str__(self) -> str:
        return f"{self.place.engine} on {len(self.place.cpus)}, {self.setting.title}"


def main() -> int:
    """Deploy, measure, print; 0 when ours is good enough everywhere."""
    options = parse()
    if options.from_file:
        records = read(options.from_file)
        print("\n".join(report(records)))
        return 0 if Results(records).good() else 1
    log = Log(options.keep)
    lab = Lab(*LAB)
    began = time.monotonic()
    try:
        lab.down()
        lab.up([])
        places = list(deploy_all(lab, options, log))
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        log.add(Run(today, machine(), wait_for_quiet(options.rest), options.seconds, options.seed))
        measure_all(places, options, log, began + 60 * options.minutes)
        log.add(End(time.monotonic() - began, os.getloadavg()[0]))
    except (LabError, AssertionError, KeyboardInterrupt) as error:
        why = str(error) or "it was interrupted"
        log.add(LeftOut(f"all that was to come: {why.splitlines()[0]}"))
        print(f"benchmark: {why}", file=sys.stderr)
    finally:
        lab.down()
    print("\n".join(report(log.records)))
    ended = isinstance(log.records[-1], End) if log.records else False
    return 0 if ended and Results(log.records).good() else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning")
    add = parser.add_argument
    add("--seconds", type=float, default=20, help="a point, for requests to begin (default: %(default)s)")
    add("--minutes", type=float, default=90, help="in all (default: %(default)s)")
    add(
        "--rest",
        type=float,
        default=120,
        help="seconds to wait at most for a quiet machine (default: %(default)s)",
    )
    add("--seed", type=int, default=1, help="of the order and of prompts (default: %(default)s)")
    add("--keep", type=Path, help="a file to append every record to, JSON lines")
    add("--from", type=Path, dest="from_file", help="print what such a file holds, and measure nothing")
    add("--engine", choices=list(ENGINES), help="only this one (default: both)")
    add("--cores", choices=list(CPUSETS), help="only a host with so many (default: two, and one)")
    add("--starts", type=int, default=1, help="of each setting (default: %(default)s)")
    add("--only", nargs="*", metavar="TITLE", help="beside ours only these settings (default: all)")
    return parser.parse_args()


def deploy_all(lab: Lab, options: argparse.Namespace, log: Log) -> Iterator[Place]:
    """A host for each engine and number of cores. One after another: two first starts of vLLM at once would
    compile for minutes."""
    for engine in [options.engine] if options.engine else ENGINES:
        for cores in [options.cores] if options.cores else CPUSETS:
            spec = HostSpec(f"{ENGINES[engine]}-{cores}", "trixie", cpus=CPUSETS[cores])
            place = tuning_hosts.deploy(lab, spec, engine)
            log.add(Rendered(engine, len(place.cpus), place.command, place.rendered))
            yield place


def machine() -> str:
    """Processor, number of cores, kernel."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{model or platform.machine()}, {os.cpu_count()} CPUs, Linux {kernel}"


def wait_for_quiet(seconds: float) -> float:
    """Give the machine a while to come to rest; the load it then has."""
    end = time.monotonic() + seconds
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < end:
        time.sleep(2)
    return os.getloadavg()[0]


def measure_all(places: Sequence[Place], options: argparse.Namespace, log: Log, end: float) -> None:
    """All settings in turn, then whoever seems better than ours once more; never past `end` (monotonic)."""
    points = len(CLIENTS) * (options.seconds + 3)
    took = {place.engine: [GUESSED_START_S[place.engine] + points] for place in places}
    last = [Start(place, settings(place.engine, place.cpus)[0]) for place in places]

    def attempt(start: Start, kept: Sequence[Start] = ()) -> None:
        needs = sum(median(took[each.place.engine]) for each in (start, *kept))
        if time.monotonic() + needs > end:
            log.add(LeftOut(f"{start}, for want of time"))
            return
        began = time.monotonic()
        measure(start, options, log)
        took[start.place.engine].append(time.monotonic() - began)

    for start in in_turn(places, options):
        attempt(start, last)
    for start in last:
        attempt(start)
    for start in challengers(places, log):
        attempt(start)


def in_turn(places: Sequence[Place], options: argparse.Namespace) -> Iterator[Start]:
    """Everything but ours at the end, a setting of each place at a time. With several starts of each, ours
    comes as often as any other."""
    queues = []
    for place in places:
        ours, *others = [
            setting
            for setting in settings(place.engine, place.cpus)
            if options.only is None or setting.title in (OURS, *options.only)
        ]
        dice = random.Random(f"{options.seed} {place.deployment}")  # noqa: S311
        order: list[Setting] = []
        for _ in range(options.starts):
            dice.shuffle(others)
            order += [ours, *others]
        if options.starts == 1:
            order.insert(1 + len(others) // 2, ours)
        queues.append([Start(place, setting) for setting in order])
    for position in range(max(map(len, queues), default=0)):
        yield from (queue[position] for queue in queues if position < len(queue))


def challengers(places: Sequence[Place], log: Log) -> Iterator[Start]:
    """Who beats ours by too much, by what is known so far, and ours, for each place that has such."""
    verdicts = list(Results(log.records).verdicts())
    for place in places:
        best = {
            v.best
            for v in verdicts
            if not v.enough and (v.engine, v.cores) == (place.engine, len(place.cpus))
        }
        if best:
            known = settings(place.engine, place.cpus)
            yield from (Start(place, setting) for setting in known if setting.title in (OURS, *best))


def measure(start: Start, options: argparse.Namespace, log: Log) -> None:
    """One start of one server, and all numbers of clients; what goes wrong is a record too."""
    place, setting = start.place, start.setting
    number = 1 + max((record.start for record in log.records if isinstance(record, Measured)), default=0)
    where = place.engine, len(place.cpus), setting.title
    cpu_time.keep_off(place.cpus)
    try:
        with place.running(setting) as start_s:
            say(f"{start}: ready after {start_s:.0f} s")
            try:
                warm_up(place.target)
                for clients in CLIENTS:
                    seed = options.seed * 100_000 + number * 100 + clients
                    watch = cpu_time.Watch(place.cpu_seconds, place.cpus)
                    answers = Point(place.target, clients, options.seconds, seed).measure()
                    shares = watch.shares()
                    if not answers:
                        raise LoadError(f"no token in {options.seconds:g} s with {plural(clients, 'client')}")
                    log.add(
                        Measured(
                            *where,
                            compared=setting.compared,
                            start=number,
                            clients=clients,
                            answers=answers,
                            start_s=start_s,
                            server=shares.server,
                            others=shares.others,
                            client=shares.client,
                            load=os.getloadavg()[0],
                        )
                    )
                    say(
                        f"{start}, {plural(clients, 'client')}: {rate(answers, clients):.1f} tokens/s, first "
                        f"after {ttft(answers):.2f} s; others had {shares.others:.2f} of its cores"
                    )
            except LoadError as error:
                raise LabError(place.why_down() or str(error)) from error
    except LabError as error:
        say(f"{start}: {error}")
        log.add(Failed(*where, str(error)))
    finally:
        cpu_time.keep_off(frozenset())


if __name__ == "__main__":
    sys.exit(main())
