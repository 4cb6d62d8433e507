"""What came of an apply, for people and as data. Outcome and its Plan in, text or JSON data out.

Whatever failed is told so that one can act: what, why, what to do, the last log lines, and what serves now.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

from msgspec.structs import asdict

from ..errors import ERROR, OK, STALE, worst
from ..types.base import to_data
from ..types.outcome import EXIT_CODES, ChangeOutcome, Failure, HostOutcome, Outcome
from ..types.plan import Plan
from ..types.words import count
from .endpoints import Endpoint, endpoints
from .left_out import left_out
from .numbers import duration
from .text import Cell, Ink, flow, lines_of, widest
from .written import HostResult, Result

EXIT_MEANINGS = {
    0: "done, or nothing to change",
    1: "an error, or something that is wanted was left out",
    2: "there are changes",
    3: "some hosts failed",
    4: "some hosts could not be reached",
    5: "a host is held by another, or was taken from this command",
    6: "the plan is stale or used up: make a new one",
    7: "failed and rolled back",
    64: "the command line is wrong",
    130: "interrupted",
}
_SIGNS = {"done": ("✓", "green"), "unchanged": ("=", "dim"), "used": ("=", "dim")}
_BAD = ("✗", "red")
_WIDEST_HOST = 24
_LOG_INDENT = 9


def exit_code(outcome: Outcome) -> int:
    """The one exit code for all hosts: stale where every host with changes had them already."""
    at_work = [host.status for host in outcome.hosts.values() if host.changes]
    if at_work and all(status == "used" for status in at_work):
        return STALE
    return worst(EXIT_CODES[host.status] for host in outcome.hosts.values())


def end_code(outcome: Outcome, plan: Plan) -> int:
    """The exit code of the command: 1 also where something that is wanted was left out of the plan."""
    lacking = any(host.left_out for host in plan.hosts.values())
    return worst([exit_code(outcome), ERROR if lacking else OK])


def outcome_data(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """The outcome as JSON data, with what is read off it and its plan."""
    hosts = {
        name: HostResult(**asdict(host), exit_code=EXIT_CODES[host.status])
        for name, host in outcome.hosts.items()
    }
    told = {
        "exit_code": end_code(outcome, plan),
        "endpoints": tuple(endpoints(outcome, plan)),
        "left_out": {name: host.left_out for name, host in plan.hosts.items() if host.left_out},
    }
    data: dict[str, Any] = to_data(Result(**{**asdict(outcome), "hosts": hosts, **told}))
    return data


def render_outcome(
    outcome: Outcome,
    plan: Plan,
    *,
    colour: bool,
    width: int,
    command: str = "apply",
) -> str:
    """Hosts, failures, endpoints and what the exit code means; no line end at the end."""
    ink = Ink(colour)
    column = widest(outcome.hosts, most=_WIDEST_HOST)
    lines: list[str] = []
    for name, host in outcome.hosts.items():
        sign, style = _SIGNS.get(host.status, _BAD)
        head = [Cell(sign, style), Cell(" "), Cell(name, "bold", column), Cell("   ")]
        lines += flow(ink, head, host_text(host), width=width)
    for name, host in outcome.hosts.items():
        for change in host.changes:
            if change.failure is not None:
                lines += ["", *_failed(name, host, change, change.failure, ink, width)]
    lines += _interrupted(outcome, go_on(plan, command), ink, width)
    for warning in outcome.warnings:
        lines += ["", *flow(ink, [Cell("!", "yellow"), Cell(" ")], warning, width=width)]
    for name, models in left_out(plan).items():
        for model, why in models.items():
            head = [Cell("!", "yellow"), Cell(" "), Cell(f"{name} {model}".strip(), "bold"), Cell("   ")]
            lines += flow(ink, head, why, width=width)
    served = endpoints(outcome, plan)
    if served:
        lines += ["", *_served(served, ink, width)]
    end = flow(ink, [], end_line(outcome, plan), width=width, style="bold")
    return "\n".join([*lines, "", *end])


def unfinished(outcome: Outcome) -> dict[str, list[str]]:
    """Host → what an interrupted apply left to be done there."""
    return {
        name: [change.subject for change in host.changes if change.status not in ("done", "already")]
        for name, host in outcome.hosts.items()
        if host.status == "interrupted"
    }


def go_on(plan: Plan, command: str) -> str:
    """How to go on where `command`, which carried `plan` out, was ended."""
    if plan.saved:
        return "apply the same file again: it goes on with what is left"
    if command == "rollback":
        return "cpudeploy rollback again, with --limit for each host named here: the others are back already"
    return f"cpudeploy {command} again: it goes on with what is left"


def _interrupted(outcome: Outcome, how: str, ink: Ink, width: int) -> list[str]:
    left = unfinished(outcome)
    lines: list[str] = []
    for name, subjects in left.items():
        head = [Cell("!", "yellow"), Cell(" "), Cell(name, "bold"), Cell("   ")]
        lines += flow(ink, head, f"left: {', '.join(subjects) or 'nothing'}", width=width)
    if left:
        lines += flow(ink, [Cell("  "), Cell("do", "cyan", 5), Cell("  ")], how, width=width)
    return ["", *lines] if lines else []


def end_line(outcome: Outcome, plan: Plan) -> str:
    """How all of it ended, in one line: hosts counted, time, and the exit code with what it means."""
    end = f"{plan.deployment} · {_counted(outcome)} · {duration(outcome.seconds)}"
    code = end_code(outcome, plan)
    return f"{end} · cpudeploy exits {code}: {EXIT_MEANINGS[code]}" if code else end


def host_text(host: HostOutcome) -> str:
    """How a host ended, its changes counted, and why where no single change says it."""
    changes = Counter(change.status for change in host.changes)
    parts: list[str] = [host.status]
    parts += [
        f"{changes[status]} {status}"
        for status in changes
        if host.status != "used" and (len(changes) > 1 or status != host.status)
    ]
    if host.seconds:
        parts.append(duration(host.seconds))
    return " · ".join(parts) + (f": {host.error}" if host.error else "")


def _failed(
    name: str, host: HostOutcome, change: ChangeOutcome, failure: Failure, ink: Ink, width: int
) -> list[str]:
    code = EXIT_CODES[host.status]
    parts = [failure.what, failure.serving, f"cpudeploy exits {code}" if code else ""]
    head = [Cell("✗", "red"), Cell(" "), Cell(f"{name} {change.subject}", "bold"), Cell("   ")]
    lines = flow(ink, head, " · ".join(part for part in parts if part), width=width)
    fields = [("cause", failure.cause), ("do", failure.do), ("state", container_text(failure))]
    for field, text in fields:
        if text:
            lines += flow(ink, [Cell("  "), Cell(field, "cyan", 5), Cell("  ")], text, width=width)
    if failure.log:
        log = [line for entry in failure.log for line in lines_of(entry)]
        head = [Cell("  "), Cell("log", "cyan", 5), Cell("  ")]
        lines += flow(ink, head, f"{count(len(log), 'line')}:", width=width)
        # Log lines are not wrapped: they are searched for, and copied.
        lines += [" " * _LOG_INDENT + ink(line, "dim") if line else "" for line in log]
    return lines


def container_text(failure: Failure) -> str:
    """What is known of the container that failed."""
    parts = []
    if failure.exit_code is not None:
        parts.append(f"exit code {failure.exit_code}{exit_reason(failure.exit_code)}")
    if failure.oom:
        parts.append("killed for memory (OOM)")
    if failure.restarts:
        parts.append(count(failure.restarts, "restart"))
    return " · ".join(parts)


def exit_reason(code: int) -> str:
    """` (SIGILL)` for a container's exit code that tells of a signal, else empty."""
    try:
        return f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    except ValueError:
        return ""


def _served(served: list[Endpoint], ink: Ink, width: int) -> list[str]:
    several = Counter((endpoint.host, endpoint.model) for endpoint in served)
    lines = []
    for endpoint in served:
        number = f" instance {endpoint.instance}" if several[endpoint.host, endpoint.model] > 1 else ""
        head = [Cell(endpoint.model, "bold"), Cell(f"{number} on {endpoint.host}: ")]
        lines += flow(ink, head, endpoint.url, width=width, style="green")
    return lines


def _counted(outcome: Outcome) -> str:
    statuses = Counter(host.status for host in outcome.hosts.values())
    if len(statuses) == 1:
        (status, number) = next(iter(statuses.items()))
        return f"{count(number, 'host')} {status}"
    return ", ".join(f"{number} {status}" for status, number in statuses.items()) or "no hosts"
