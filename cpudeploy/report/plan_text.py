"""A plan for people: Plan in, text out. Never leaves out a change, a warning or a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..types.plan import Change, HostPlan, Plan
from ..types.words import count
from .left_out import left_out
from .numbers import duration
from .plan_changes import allocation_lines, allocations_of, change_lines, irreversible
from .text import Cell, Ink, flow, widest

_WIDEST_HOST = 24
_WIDEST_SUBJECT = 28


def render_plan(plan: Plan, *, colour: bool, width: int, verbose: bool, facts_s: float | None = None) -> str:
    """The whole plan, no line end at the end. `facts_s`: seconds the facts took, where they were asked."""
    ink = Ink(colour)
    lines = flow(ink, [Cell(headline(plan, facts_s), "bold")], width=width)
    if verbose:
        lines += flow(ink, [Cell("plan    ", "dim")], plan.id, width=width)
        lines += flow(ink, [Cell("origin  ", "dim")], plan.origin, width=width)
    lines += _warnings(plan.warnings, ink, width, indent=0)
    column = widest(plan.hosts, most=_WIDEST_HOST)
    left = left_out(plan)
    for name, host in plan.hosts.items():
        lines += ["", *_host(name, host, column, left[name], ink=ink, width=width, verbose=verbose)]
    lines.append("")
    for line in legend(plan):
        lines += flow(ink, [], line, width=width, style="dim")
    lines += flow(ink, [], totals(plan), width=width, style="bold")
    return "\n".join(lines)


def render_host(name: str, host: HostPlan, *, colour: bool, width: int, verbose: bool) -> str:
    """One host of a plan, as `render_plan` shows it."""
    lines = _host(name, host, 0, host.left_out, ink=Ink(colour), width=width, verbose=verbose)
    return "\n".join(lines)


def headline(plan: Plan, facts_s: float | None = None) -> str:
    """`rag · 2 hosts · facts in 0.4 s`, or `rag · 2 hosts · from recorded facts of DIR; not applicable`."""
    parts = [plan.deployment, "destroy" if plan.destroy else "", count(len(plan.hosts), "host")]
    if facts_s is not None:
        parts.append(f"facts in {duration(facts_s)}")
    if plan.recorded:
        parts.append(f"from recorded facts of {plan.recorded}; not applicable")
    return " · ".join(part for part in parts if part)


def legend(plan: Plan) -> list[str]:
    """What needs saying about the signs and words this plan uses."""
    changes = [change for host in plan.hosts.values() for change in host.changes]
    lines = []
    if any(change.action == "gate" for change in changes):
        lines.append("? starts it if it is down and proves that it serves; nothing is replaced")
    if any(map(irreversible, changes)):
        lines.append("revert: none: should a later step fail, this stays as it is then")
    return lines


def totals(plan: Plan) -> str:
    """What the plan comes to, in one line; `no changes` where there are none."""
    changes = [change for host in plan.hosts.values() for change in host.changes]
    unreachable = sum(bool(host.unreachable) for host in plan.hosts.values())
    unknown = sum(bool(host.unknown) for host in plan.hosts.values())
    planned = len(plan.hosts) > unreachable + unknown or not plan.hosts
    # `no changes` is said of hosts that are as wanted, never of those nothing could be planned for.
    parts = [_counted(changes)] if changes else ["no changes"] if planned else []
    if unreachable:
        parts.append(f"{count(unreachable, 'host')} unreachable")
    if unknown:
        parts.append(f"{count(unknown, 'host')} not planned")
    parts += _left_out(plan)
    if changes:
        foreign = sum(change.restarts_foreign for change in changes)
        parts.append(f"{count(foreign, 'foreign container')} " + ("restarts" if foreign == 1 else "restart"))
    return " · ".join(parts)


def _left_out(plan: Plan) -> list[str]:
    """How much is wanted and left out."""
    hosts = plan.hosts.values()
    not_yet = len({model for host in hosts for model in host.not_yet})
    postponed = sum(bool(host.postponed) for host in hosts)
    unplanned = len({model for host in hosts for model in host.unplanned})
    held = len({model for host in hosts for model in host.held})
    told = [
        (not_yet, f"{count(not_yet, 'model')} not yet"),
        (postponed, f"{count(postponed, 'host')} not yet"),
        (unplanned, f"{count(unplanned, 'model')} not planned"),
        (held, f"{count(held, 'model')} held"),
    ]
    return [text for number, text in told if number]


def _counted(changes: list[Change]) -> str:
    models = Counter[str](change.action for change in changes if _is_model(change))
    others = Counter(change.action == "remove" for change in changes if not _is_model(change))
    parts: list[str] = []
    for action, verb in (("create", "start"), ("update", "change"), ("remove", "remove"), ("gate", "prove")):
        if models[action]:
            # The noun stands once: `1 model to start, 2 to change`.
            counted = str(models[action]) if parts else count(models[action], "model")
            parts.append(f"{counted} to {verb}")
    if others[False]:
        parts.append(count(others[False], "preparation"))
    if others[True]:
        # `other` than the models, where some are named before.
        parts.append(f"{count(others[True], 'other thing' if parts else 'thing')} to remove")
    return ", ".join(parts)


def _is_model(change: Change) -> bool:
    return change.step in ("container", "health")


def _host(
    name: str, host: HostPlan, column: int, left: Mapping[str, str], *, ink: Ink, width: int, verbose: bool
) -> list[str]:
    head = [Cell(name, "bold", column), Cell("   ")]
    if host.unreachable:
        return flow(ink, head, f"unreachable: {host.unreachable}", width=width, style="red")
    lines = flow(ink, head, host.headline, width=width)
    if host.unknown:
        lines += flow(
            ink, [Cell("  "), Cell("!", "yellow"), Cell(" ")], f"not planned: {host.unknown}", width=width
        )
    lines += _warnings(host.warnings, ink, width, indent=2)
    subject = widest((change.subject for change in host.changes), most=_WIDEST_SUBJECT)
    told = set()
    for change in host.changes:
        # A model with several changes (a new container, then its gate) is described at the first.
        mine = tuple(a for a in allocations_of(change, host) if (a.model, a.instance) not in told)
        told |= {(a.model, a.instance) for a in mine}
        lines += change_lines(change, mine, ink=ink, width=width, subject=subject, verbose=verbose)
    for allocation in host.allocations:
        key = (allocation.model, allocation.instance)
        if key not in told and (verbose or not allocation.kept):
            title = f"{allocation.model} instance {allocation.instance}"
            lines += allocation_lines(allocation, title, ink=ink, width=width, verbose=verbose)
    for model, why in left.items():
        sign = [Cell("  "), Cell("!", "yellow"), Cell(" ")]
        named = [Cell(model, "bold", max(subject, widest(left, most=_WIDEST_SUBJECT))), Cell("  ")]
        lines += flow(ink, [*sign, *(named if model else [])], why, width=width)
    if host.retained:
        lines += flow(
            ink, [Cell("  "), Cell("unchanged  ", "dim")], ", ".join(host.retained), width=width, style="dim"
        )
    elif not host.changes and not host.unknown and not left:
        lines += flow(ink, [Cell("  "), Cell("no changes", "dim")], width=width)
    return lines


def _warnings(warnings: tuple[str, ...], ink: Ink, width: int, *, indent: int) -> list[str]:
    return [
        line
        for warning in warnings
        for line in flow(ink, [Cell(" " * indent), Cell("!", "yellow"), Cell(" ")], warning, width=width)
    ]
