"""What `benchmarks.tuning` measured, as records in a file, and the tables and verdicts that follow from them.

In: records, in the order they came. Out: Markdown, and whether our settings are good enough. No clock and no
server is asked here: a run that was cut is printed like one that was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from benchmarks.load import Answer
from benchmarks.tuning_settings import DEFAULTS, DEFAULTS_SIZED, F16, LLAMA, OURS, VLLM

ENOUGH = 0.95
"""Of the best setting's tokens a second, ours must make at least this part."""
CLIENTS = (1, 2, 4)
RESAMPLES = 2000
DISTURBED = 0.1
"""Cores' worth of other work on the server's own cores from which on a figure is marked."""

LEGEND = f"""\
Output tokens a second of all clients together: their number × the median over requests of a request's tokens
(the server's `usage`) ÷ its seconds. In brackets where it falls in 95 % of resamplings: of the starts where
there were several, and of the requests of each; a single start knows nothing of how starts differ. Then the
median time to the first token. **Bold**: the highest that competes. †: other work had more than {DISTURBED}
of a core on the server's cores."""

Starts = Sequence[Sequence[Answer]]
"""The requests of a cell, start by start."""
FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Interval = tuple[float, float, float]
"""A figure, and between what it may well be."""


class Run(msgspec.Struct, frozen=True, tag=True):
    """What was begun, where, when. load: of the machine, before anything was measured."""

    when: str
    machine: str
    load: float
    seconds: float
    seed: int


class Rendered(msgspec.Struct, frozen=True, tag=True):
    """What cpudeploy made of the manifest: its arguments, and the variables beside the image's."""

    engine: str
    cores: int
    command: list[str]
    env: dict[str, str]


class Measured(msgspec.Struct, frozen=True, tag=True):
    """One point. start_s: until the server was healthy. server, others, client: CPU seconds a second (see
    `cpu_time.Shares`). load: of the machine, afterwards."""

    engine: str
    cores: int
    setting: str
    compared: bool
    start: int
    clients: int
    answers: list[Answer]
    start_s: float
    server: float
    others: float
    client: float
    load: float


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A setting that did not start, or a point without an answer."""

    engine: str
    cores: int
    setting: str
    why: str


class LeftOut(msgspec.Struct, frozen=True, tag=True):
    """What there was no time for, or what ended the run."""

    what: str


class End(msgspec.Struct, frozen=True, tag=True):
    """The run came to its end after so many seconds."""

    seconds: float
    load: float


Record = Run | Rendered | Measured | Failed | LeftOut | End


class Verdict(msgspec.Struct, frozen=True):
    """Ours against the best of one engine, with so many cores and clients. ratio: ours to the best's, with
    its interval; defaults: theirs to ours (of those sized as ours where the others gave no answer)."""

    engine: str
    cores: int
    clients: int
    ours: float
    best: str
    best_rate: float
    ratio: Interval
    defaults: Interval | None

    @property
    def enough(self) -> bool:
        return self.ratio[0] >= ENOUGH

    @property
    def sure(self) -> bool:
        """Whether the whole interval says the same."""
        return all((end >= ENOUGH) == self.enough for end in self.ratio)


def read(path: Path) -> list[Record]:
    """All records of a file; a last line that was not written to its end is none."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=Record) for line in lines]


def pooled(starts: Starts) -> list[Answer]:
    return [answer for start in starts for answer in start]


def rate(answers: Sequence[Answer], clients: int) -> float:
    """Tokens a second of all clients: as many as each has by the median of its requests."""
    return clients * median(answer.tokens / answer.seconds for answer in answers)


def ttft(answers: Sequence[Answer]) -> float:
    """Seconds to the first token, median."""
    return median(answer.ttft for answer in answers)


def rates(starts: Starts, clients: int) -> Interval:
    """Their rate, and within what it falls in 95 of 100 resamplings."""
    return between(rate(pooled(starts), clients), clients * resampled(starts, seed=0))


def ratios(one: Starts, other: Starts) -> Interval:
    """One rate to another, of as many clients, and its interval: each is resampled."""
    figure = rate(pooled(one), 1) / rate(pooled(other), 1)
    return between(figure, resampled(one, seed=0) / resampled(other, seed=1))


def resampled(starts: Starts, seed: int) -> FloatArray:
    """Rates of one client in samples drawn from these: as many starts, and of each as many requests."""
    dice = np.random.default_rng(seed)
    each = [np.array([answer.tokens / answer.seconds for answer in start]) for start in starts]
    drawn = [
        np.median(np.concatenate([dice.choice(each[one], len(each[one])) for one in picked]))
        for picked in dice.integers(len(each), size=(RESAMPLES, len(each)))
    ]
    return np.array(drawn)


def between(figure: float, others: FloatArray) -> Interval:
    low, high = np.percentile(others, [2.5, 97.5])
    return figure, float(low), float(high)


class Results:
    """Records, by what they are asked for."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.points = [record for record in records if isinstance(record, Measured)]
        told = {(r.engine, r.cores) for r in records if isinstance(r, Rendered | Measured | Failed)}
        self.groups = sorted(told, key=lambda group: (-group[1], group[0]))

    def starts(self, engine: str, cores: int, setting: str, clients: int) -> list[list[Answer]]:
        """The requests of one cell, start by start."""
        return [point.answers for point in self.points if key(point) == (engine, cores, setting, clients)]

    def settings(self, engine: str, cores: int, *, compared: bool | None = None) -> list[str]:
        """The settings measured, ours and the defaults first, the others by name."""
        found = {
            p.setting
            for p in self.points
            if (p.engine, p.cores) == (engine, cores) and compared in (None, p.compared)
        }
        return sorted(
            found, key=lambda title: (title != OURS, title not in (DEFAULTS, DEFAULTS_SIZED), title)
        )

    def verdicts(self) -> Iterator[Verdict]:
        """One for each cell in which ours was measured."""
        for engine, cores in self.groups:
            for clients in CLIENTS:
                found = {
                    setting: starts
                    for setting in self.settings(engine, cores, compared=True)
                    if (starts := self.starts(engine, cores, setting, clients))
                }
                if OURS in found:
                    yield verdict(engine, cores, clients, found)

    def good(self) -> bool:
        """Whether ours was measured everywhere and nowhere below what is enough."""
        verdicts = list(self.verdicts())
        return (
            bool(verdicts)
            and len(verdicts) == len(self.groups) * len(CLIENTS)
            and all(v.enough for v in verdicts)
        )


def key(point: Measured) -> tuple[str, int, str, int]:
    return point.engine, point.cores, point.setting, point.clients


def verdict(engine: str, cores: int, clients: int, found: dict[str, list[list[Answer]]]) -> Verdict:
    """The best is whoever has the highest rate, ours too."""
    told = {setting: rate(pooled(starts), clients) for setting, starts in found.items()}
    best = max(told, key=lambda setting: told[setting])
    ours = found[OURS]
    defaults = found.get(DEFAULTS) or found.get(DEFAULTS_SIZED)
    return Verdict(
        engine,
        cores,
        clients,
        told[OURS],
        best,
        told[best],
        (1, 1, 1) if best == OURS else ratios(ours, found[best]),
        ratios(defaults, ours) if defaults else None,
    )


def report(records: Sequence[Record]) -> Iterator[str]:
    """All of it, line by line."""
    results = Results(records)
    yield from heading(records)
    for engine, cores in results.groups:
        yield from group(results, engine, cores)
    yield from verdict_table(results)
    yield from ratio_table(results)
    yield from footing(results)


def heading(records: Sequence[Record]) -> Iterator[str]:
    for run in [record for record in records if isinstance(record, Run)]:
        yield f"{run.when}, {run.machine}; {run.seconds:g} s a point, seed {run.seed}."
        yield f"Load {run.load:.1f} before.\n"
    yield from LEGEND.splitlines()


def group(results: Results, engine: str, cores: int) -> Iterator[str]:
    """One engine on one number of cores."""
    yield f"\n### {engine}, {plural(cores, 'core')}\n"
    for record in results.records:
        if isinstance(record, Rendered) and (record.engine, record.cores) == (engine, cores):
            env = " ".join(f"{name}={value}" for name, value in sorted(record.env.items()))
            yield f"Rendered: `{' '.join(filter(None, [env, *record.command]))}`\n"
    yield "| setting | starts | " + " | ".join(plural(clients, "client") for clients in CLIENTS) + " |"
    yield "|---|--:|" + "--:|" * len(CLIENTS)
    bests = {v.clients: v.best for v in results.verdicts() if (v.engine, v.cores) == (engine, cores)}
    for setting in results.settings(engine, cores):
        points = [p for p in results.points if (p.engine, p.cores, p.setting) == (engine, cores, setting)]
        cells = [cell(results, points, clients, bests.get(clients) == setting) for clients in CLIENTS]
        yield f"| {setting} | {len({p.start for p in points})} | {' | '.join(cells)} |"
    for record in results.records:
        if isinstance(record, Failed) and (record.engine, record.cores) == (engine, cores):
            why = " ".join(record.why.split()).replace("|", "\\|")
            yield f"| {record.setting} | | {why} |" + " |" * (len(CLIENTS) - 1)
    yield ""
    for clients in CLIENTS:
        starts = [p for p in results.points if key(p) == (engine, cores, OURS, clients)]
        told = ", ".join(f"{rate(point.answers, clients):.1f}" for point in starts)
        yield f"- Ours with {plural(clients, 'client')}, start by start: {told or 'no answer'}"


def cell(results: Results, points: Sequence[Measured], clients: int, best: bool) -> str:
    mine = [point for point in points if point.clients == clients]
    starts = [point.answers for point in mine]
    sample = pooled(starts)
    if not sample:
        return "–"
    told, low, high = rates(starts, clients)
    marks = "†" if any(point.others > DISTURBED for point in mine) else ""
    marks += " (cut)" if any(answer.cut for answer in sample) else ""
    figure = f"**{told:.1f}**" if best else f"{told:.1f}"
    return f"{figure} ({low:.1f} to {high:.1f}){marks}; {ttft(sample):.2f} s"


def verdict_table(results: Results) -> Iterator[str]:
    yield "\n### Ours against the best\n"
    yield f"| engine | cores | clients | ours | best | | ours / best | at least {ENOUGH} | defaults / ours |"
    yield "|---|--:|--:|--:|---|--:|--:|---|--:|"
    for v in results.verdicts():
        told = ("yes" if v.enough else "**no**") + ("" if v.sure else ", within the noise")
        cells = [v.engine, v.cores, v.clients, f"{v.ours:.1f}", v.best, f"{v.best_rate:.1f}", spread(v.ratio)]
        cells += [told, spread(v.defaults) if v.defaults else "no answer"]
        yield f"| {' | '.join(map(str, cells))} |"


def ratio_table(results: Results) -> Iterator[str]:
    """The two engines as cpudeploy sets them up, and what of their difference is the type of the weights."""
    yield f"\n### {VLLM} against {LLAMA}\n"
    yield f"| cores | clients | {VLLM}, bf16 | {LLAMA}, Q4_1 | ratio | {LLAMA}, F16 | ratio |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for cores in sorted({cores for _, cores in results.groups}, reverse=True):
        for clients in CLIENTS:
            ours = results.starts(VLLM, cores, OURS, clients)
            if not ours:
                continue
            cells = []
            for setting in (OURS, F16):
                other = results.starts(LLAMA, cores, setting, clients)
                told = f"{rate(pooled(other), clients):.1f}" if other else ""
                cells += [told, spread(ratios(ours, other))] if other else ["", ""]
            yield f"| {cores} | {clients} | {rate(pooled(ours), clients):.1f} | {' | '.join(cells)} |"


def footing(results: Results) -> Iterator[str]:
    """What the figures are worth."""
    if results.points:
        client = max(point.client for point in results.points)
        others = [point.others for point in results.points]
        yield (
            f"\nThe clients took {client:.3f} of a core at most; other work had {median(others):.2f} of the "
            f"server's cores in the median point, {max(others):.2f} at most."
        )
    for record in results.records:
        if isinstance(record, LeftOut):
            yield f"\nLeft out: {record.what}."
        if isinstance(record, End):
            yield f"\nIt took {record.seconds / 60:.0f} minutes; load {record.load:.1f} afterwards."
    if not any(isinstance(record, End) for record in results.records):
        yield "\nThe run did not come to its end."


def spread(figures: Interval) -> str:
    return f"{figures[0]:.2f}" if figures[1] == figures[2] else "{:.2f} ({:.2f} to {:.2f})".format(*figures)


def plural(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
