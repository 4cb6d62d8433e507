"""What came of an apply as a comment on a merge request: Outcome and its Plan in, Markdown out.

How it ended first, then each host, every failure with what to do, where models answer, and the plan that
was carried out folded away. Never longer than a forge accepts.
"""

from __future__ import annotations

from ..types.outcome import ChangeOutcome, Failure, HostOutcome, Outcome
from ..types.plan import Plan
from .endpoints import endpoints
from .left_out import left_out
from .markdown import LIMIT, code, folded, plain
from .numbers import duration
from .outcome_text import container_text, end_code, end_line, go_on, host_text, unfinished
from .plan_text import render_plan
from .text import lines_of

_FOLDED_WIDTH = 110
_SIGNS = {"done": "✅", "unchanged": "✅", "used": "✅"}
_BAD = "❌"


def render_outcome_markdown(
    outcome: Outcome, plan: Plan, *, limit: int = LIMIT, command: str = "apply"
) -> str:
    """The comment, at most about `limit` characters; what had to be left out is said."""
    ended = "destroyed" if plan.destroy else "applied"
    if end_code(outcome, plan):
        ended = "not all done"
    blocks = [
        f"### {plain(f'{plan.deployment} · {ended}')}",
        f"**{plain(end_line(outcome, plan))}**",
        _hosts(outcome),
    ]
    blocks += [f"> ⚠ {plain(warning)}" for warning in outcome.warnings]
    for name, models in left_out(plan).items():
        blocks += [f"> ⚠ {plain(f'{name} {m}'.strip())}: {plain(w)}" for m, w in models.items()]
    left = unfinished(outcome)
    blocks += [f"> ⚠ {plain(name)}: left: {plain(', '.join(subjects))}" for name, subjects in left.items()]
    blocks += [plain(go_on(plan, command))] if left else []
    failures = [
        _failure(name, change, change.failure)
        for name, host in outcome.hosts.items()
        for change in host.changes
        if change.failure is not None
    ]
    blocks += failures
    served = endpoints(outcome, plan)
    if served:
        rows = [f"| {plain(each.model)} | {plain(each.host)} | {code(each.url)} |" for each in served]
        blocks.append("\n".join(["| model | host | answers at |", "|---|---|---|", *rows]))
    blocks.append(
        folded(
            "the plan that was carried out",
            render_plan(plan, colour=False, width=_FOLDED_WIDTH, verbose=False),
        )
    )
    document, skipped = "", False
    for block in blocks:
        if len(document) + len(block) > limit:
            skipped = True
            continue
        document += block + "\n\n"
    if skipped:
        document += "_Some of it is too long for a comment: see the log of the command._\n\n"
    return document.rstrip("\n") + "\n"


def _hosts(outcome: Outcome) -> str:
    rows = ["| | host | |", "|---|---|---|"]
    for name, host in outcome.hosts.items():
        rows.append(f"| {_SIGNS.get(host.status, _BAD)} | {plain(name)} | {plain(host_text(host))} |")
        rows += [_change(change) for change in host.changes if _worth_a_row(change, host)]
    return "\n".join(rows)


def _worth_a_row(change: ChangeOutcome, host: HostOutcome) -> bool:
    """Every change of a host that did not end well; of others what was done, by the count alone."""
    return host.status not in _SIGNS or change.failure is not None


def _change(change: ChangeOutcome) -> str:
    told = f"{change.status} · {duration(change.seconds)}" if change.seconds else change.status
    return f"| | {plain(change.subject)} | {plain(told)} |"


def _failure(host: str, change: ChangeOutcome, failure: Failure) -> str:
    told = " · ".join(part for part in (failure.what, failure.serving) if part)
    lines = [f"#### {_BAD} {plain(f'{host} {change.subject}')}", "", plain(told), ""]
    fields = (("cause", failure.cause), ("do", failure.do), ("state", container_text(failure)))
    lines += [f"- **{name}** {plain(text)}" for name, text in fields if text]
    if failure.log:
        log = [line for entry in failure.log for line in lines_of(entry)]
        lines += ["", folded(f"the last {len(log)} lines of its log", "\n".join(log))]
    return "\n".join(lines).rstrip("\n")
