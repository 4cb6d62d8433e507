"""A plan as a comment on a merge request: Plan in, Markdown out. Never longer than a forge accepts.

A table a host, then the whole text of the plan folded away. What hosts said can't become a link, a
mention or HTML.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..types.plan import FieldDiff, HostPlan, Plan
from .left_out import left_out
from .markdown import LIMIT, folded, plain
from .plan_changes import SIGNS, diff_values, summary_of
from .plan_text import headline, legend, render_host, totals

_FOLDED_WIDTH = 110
_LONGEST_DIFF = 80


def render_plan_markdown(plan: Plan, *, limit: int = LIMIT) -> str:
    """The comment, at most about `limit` characters; what had to be left out is said."""
    lines = [f"### {plain(headline(plan))}", "", f"**{plain(totals(plan))}**"]
    lines += [f"> ⚠ {plain(warning)}" for warning in plan.warnings]
    lines += [plain(line) for line in legend(plan)]
    document = "\n\n".join(line for line in lines if line)
    skipped = 0
    details: list[str] = []
    left = left_out(plan)
    for name, host in plan.hosts.items():
        section = _section(name, host, left[name])
        if len(document) + len(section) > limit:
            skipped += 1
            continue
        document += "\n\n" + section
        if host.changes:
            details.append(_details(name, host))
    for detail in details:
        if len(document) + len(detail) > limit:
            document += "\n\n_Details are too long for a comment: see `cpudeploy plan -v`._"
            break
        document += "\n\n" + detail
    if skipped:
        document += f"\n\n_{skipped} more hosts are too many for a comment: see `cpudeploy plan`._"
    return document + "\n"


def _section(name: str, host: HostPlan, left: Mapping[str, str]) -> str:
    told = host.headline
    if host.unreachable:
        told = f"unreachable: {host.unreachable}"
    elif host.unknown:
        told = f"unknown: {host.unknown}"
    blocks = [f"#### {plain(name)}", plain(told)]
    blocks += [f"> ⚠ {plain(warning)}" for warning in host.warnings]
    blocks += [f"> ⚠ {plain(f'{model} {why}'.strip())}" for model, why in left.items()]
    if host.changes:
        rows = ["| | what | |", "|---|---|---|"]
        for change in host.changes:
            sign, _ = SIGNS[change.action]
            diffs = [_diff(diff) for diff in change.diff]
            summary = " · ".join([*diffs, summary_of(change)])
            rows.append(f"| `{sign}` | {plain(change.subject)} | {plain(summary)} |")
        blocks.append("\n".join(rows))
    elif not host.unreachable and not host.unknown and not left:
        blocks.append("no changes")
    return "\n\n".join(blocks)


def _diff(diff: FieldDiff) -> str:
    before, after = diff_values(diff)
    if len(before) + len(after) > _LONGEST_DIFF:
        return f"{diff.field} differs"
    return f"{diff.field} {before} → {after}"


def _details(name: str, host: HostPlan) -> str:
    text = render_host(name, host, colour=False, width=_FOLDED_WIDTH, verbose=True)
    return folded(f"{name} in full", text)
