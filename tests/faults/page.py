"""What a run found, as a page for people: data in, Markdown out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = """\
# Reliability: broken on purpose

What becomes of a host when an upgrade is broken in the middle. This page is written by `make faults` from what
happened on real hosts; the data of the run is in [reliability.json](reliability.json).

An upgrade is a changed `context` of a model that serves: another container in the place of the one that runs. It is
broken once before every one of its steps, at random instants, and by what befalls hosts. A steady client beside the
host asks for a completion all the time, so that *silent* is what users would have noticed: seconds from the last
answer before a request failed to the next answer.

After every fault the host is left alone until nothing is about to happen on it any more (a guard that would fire, a
lease that would expire). Then it is looked at, and **one** `cpudeploy apply` follows. A case passes when

- that apply ends with 0 and the new version answers,
- nothing is there that an upgrade without a fault would not have left: no second container, network or volume, no
  `_old` or `_next`, no lease, guard or journal, no file, no unit, no process, no secrets of another release, and every
  release file can be read,
- a plan after it is empty,
- and, where only the controller or its connection was lost, something answered all by itself, before that apply.
"""

COLUMNS = (
    "fault",
    "when",
    "answers then",
    "silent",
    "the next plan",
    "lease · guard · in flight",
    "next apply",
    "silent meanwhile",
)


def page(run: dict[str, Any]) -> str:
    """The whole page of a run."""
    return "\n".join([HEAD, *_run(run), *(line for way in run["ways"] for line in _way(run, way))]) + "\n"


def failed(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases that did not pass."""
    return [result for result in run["results"] if result["wrong"]]


def _run(run: dict[str, Any]) -> Iterator[str]:
    results, wrong = run["results"], failed(run)
    machine = run["machine"]
    yield "## The run"
    yield ""
    yield f"{run['date']}, seed {run['seed']}, {run['minutes']:.0f} min. {machine['text']}"
    yield ""
    yield f"**{len(results) - len(wrong)} of {len(results)} cases passed.** " + (
        "" if not wrong else f"Not: {', '.join(result['name'] for result in wrong)}."
    )
    left_out = sum(about.get("left_out", 0) for about in run["ways"].values())
    if left_out:
        yield f"The run was given too little time for all: {left_out} others, taken at random, were not begun."
    yield ""
    yield "| way | fault | cases | something answered by itself | silent, median and most | next apply: exit 0 |"
    yield "|---|---|--:|--:|--:|--:|"
    for way in run["ways"]:
        for fault, words in run["faults"].items():
            some = [result for result in results if (result["way"], result["fault"]) == (way, fault)]
            if some:
                silent = sorted(result["silent_s"] for result in some)
                serving = sum(result["serves"] != "nothing" for result in some)
                healed = sum(result["apply"] == 0 for result in some)
                yield (
                    f"| {way} | {words} | {len(some)} | {serving} | {silent[len(silent) // 2]:.1f} s, "
                    f"{silent[-1]:.1f} s | {healed} |"
                )
    yield ""
    for result in wrong:
        yield f"- `{result['name']}` ({result['when']}): {'; '.join(result['wrong'])}"
    yield "One case again: `make faults CASE=NAME`, with `SEED=N` for another run's random instants."
    yield ""


def _way(run: dict[str, Any], way: str) -> Iterator[str]:
    about = run["ways"][way]
    yield f"## {way.capitalize()}"
    yield ""
    yield (
        f"Undisturbed: {len(about['steps'])} steps in {about['seconds']:.1f} s, silent for "
        f"{about['silent_s']:.1f} s. The steps: {', '.join(about['steps'])}."
    )
    yield ""
    yield f"| case | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for result in run["results"]:
        if result["way"] == way:
            yield f"| {' | '.join(_cells(run, result))} |"
    yield ""


def _cells(run: dict[str, Any], result: dict[str, Any]) -> list[str]:
    waited = f", {result['locked_s']:.0f} s locked before" if result["locked_s"] else ""
    mark = " ✗" if result["wrong"] else ""
    return [
        f"`{result['name'].partition('/')[2]}`{mark}",
        run["faults"][result["fault"]],
        result["when"].replace("|", "\\|"),
        result["serves"],
        f"{result['silent_s']:.1f} s",
        result["plan"].replace("|", "\\|"),
        f"{result['lease']} · {result['guard']} · {result['in_flight']}",
        f"exit {result['apply']} in {result['apply_s']:.0f} s{waited}",
        f"{result['silent_next_s']:.1f} s",
    ]
