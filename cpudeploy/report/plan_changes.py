"""One change of a plan, laid out: its line, the fields that differ, what the model is allotted.

A change and its allocations in, lines out. Differences of the container's command line and other engine
fields are shown in full only when verbose; otherwise they are named, so that no difference goes untold.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..types.allocation import Allocation
from ..types.plan import Change, FieldDiff, HostPlan
from ..types.words import count
from .numbers import duration, memory_parts, memory_size
from .operation_text import operation_text
from .text import Cell, Ink, cells, clean, flow, lines_of, shorten_pair, widest

SIGNS = {"create": ("+", "green"), "update": ("~", "yellow"), "remove": ("-", "red"), "gate": ("?", "cyan")}
ABSENT = "(not set)"
_INDENT = 6
_WIDEST_FIELD = 20
_WIDEST_VALUE = 28
_REASONED = ("cpus", "context", "memory")
"""Rows that tell their own reason; all others stand below them when more is asked for."""


class Row(NamedTuple):
    """A line under a change. `pair`: before and after, where the value is a difference."""

    field: str
    value: str
    why: str = ""
    pair: tuple[str, str] | None = None


def change_lines(
    change: Change, allocations: Sequence[Allocation], *, ink: Ink, width: int, subject: int, verbose: bool
) -> list[str]:
    """The change's line and all below it. `subject`: columns of the subject column."""
    sign, style = SIGNS[change.action]
    head = [Cell("  "), Cell(sign, style), Cell(" "), Cell(change.subject, "bold", subject), Cell("  ")]
    lines = flow(ink, head, summary_of(change, verbose=verbose), width=width)
    lines += _rows([_diff_row(diff, allocations, verbose) for diff in change.diff], ink, width, verbose)
    if change.action != "update" or verbose:
        for allocation in allocations:
            title = f"instance {allocation.instance}" if len(allocations) > 1 else ""
            lines += allocation_lines(allocation, title, ink=ink, width=width, verbose=verbose)
    if verbose:
        if change.unknown:
            lines += _operation(ink, "do", f"nothing: {change.unknown}", width)
        for operation in change.operations:
            lines += _operation(ink, "do", operation_text(operation), width)
        for operation in change.revert or ():
            lines += _operation(ink, "undo", operation_text(operation), width)
    return lines


def summary_of(change: Change, *, verbose: bool = False) -> str:
    """What the line of a change says after its subject."""
    # A create's reason is that it is not there: said by the sign already.
    why = change.why if verbose or change.action != "create" else ""
    parts = [change.summary, why if why not in change.summary else ""]
    if change.gap_s is not None:
        gap = "under 2 s" if change.gap_s < 2 else f"about {duration(change.gap_s)}"
        parts.append(f"{gap} without service")
    if change.restarts:
        foreign = f", {change.restarts_foreign} of them foreign" if change.restarts_foreign else ""
        parts.append(f"restarts {count(change.restarts, 'container')}{foreign}")
    if irreversible(change):
        parts.append("revert: none")
    return " · ".join(part for part in parts if part)


def irreversible(change: Change) -> bool:
    """Whether a failed apply can't undo it. A gate changes nothing, so there is nothing to undo."""
    return change.revert is None and change.action != "gate"


def diff_values(diff: FieldDiff) -> tuple[str, str]:
    """Before and after as they are told."""
    return ABSENT if diff.before is None else diff.before, ABSENT if diff.after is None else diff.after


def allocations_of(change: Change, host: HostPlan) -> tuple[Allocation, ...]:
    """The allocations a change is about: its subject is the model, or `model_instance` of one instance."""
    return tuple(a for a in host.allocations if change.subject in (a.model, f"{a.model}_{a.instance}"))


def allocation_lines(allocation: Allocation, title: str, *, ink: Ink, width: int, verbose: bool) -> list[str]:
    """What one instance gets, under `title` if there is one."""
    lines = flow(ink, [Cell(" " * _INDENT), Cell(title, "dim")], width=width) if title else []
    rows = list(_allocation_rows(allocation))
    if verbose:
        rows += [Row(field, "", why) for field, why in allocation.reasons.items() if field not in _REASONED]
        rows += [Row("kept", "yes" if allocation.kept else "no")]
    return lines + _rows(rows, ink, width, verbose)


def _allocation_rows(allocation: Allocation) -> Iterable[Row]:
    need = allocation.need
    threads = count(allocation.threads, "thread")
    if allocation.ranks > 1:
        threads += f" in {allocation.ranks} ranks"
    if allocation.threads_batch != allocation.threads:
        threads += f", {allocation.threads_batch} for prompt batches"
    parts = {
        "weights": need.weights,
        "rearranged": need.repack,
        "KV": need.kv,
        "state": need.state,
        "compute": need.compute,
        "engine": need.engine,
        "prompt cache": need.cache,
        "projector": need.projector,
        "loading": need.files,
        "compiling": need.compile,
    }
    context = f"{allocation.context} × {count(allocation.parallel, 'request')}"
    yield Row("cpus", allocation.cpuset, _why(allocation, "cpus", threads))
    yield Row("context", context, _why(allocation, "context"))
    yield Row("memory", memory_size(allocation.memory), _why(allocation, "memory", memory_parts(parts)))


def _why(allocation: Allocation, field: str, *facts: str) -> str:
    reason = allocation.reasons.get(field, "")
    ordered = (reason, *facts) if field == "cpus" else (*facts, reason)
    return "; ".join(part for part in ordered if part)


def _diff_row(diff: FieldDiff, allocations: Sequence[Allocation], verbose: bool) -> Row:
    if not verbose and _engine_field(diff.field):
        return Row(diff.field, "differs", f"{diff.why} (-v shows it)".strip())
    before, after = diff_values(diff)
    why = diff.why
    if len(allocations) == 1 and not verbose:
        row = next((row for row in _allocation_rows(allocations[0]) if row.field == diff.field), None)
        if row is not None:
            now = "" if row.value == after else f"now {row.value}"
            why = "; ".join(part for part in (diff.why, now, row.why) if part)
    return Row(diff.field, f"{before} → {after}", why, (before, after))


def _engine_field(field: str) -> bool:
    """Fields that follow from others: what the engine is told, not what people wrote."""
    return field in ("command", "entrypoint") or field.startswith("container.")


def _rows(rows: Sequence[Row], ink: Ink, width: int, verbose: bool) -> list[str]:
    field = widest((row.field for row in rows), most=_WIDEST_FIELD)
    value = widest((row.value for row in rows), most=_WIDEST_VALUE)
    return [line for row in rows for line in _row(row, ink, width, field, value, verbose)]


def _row(row: Row, ink: Ink, width: int, field: int, value: int, verbose: bool) -> list[str]:
    head = [Cell(" " * _INDENT), Cell(row.field, "", field), Cell("  ")]
    column = _INDENT + max(field, cells(clean(row.field))) + 2
    room = max(width - column, _WIDEST_VALUE)
    text = row.value
    if row.pair and (cells(clean(text)) > room or "\n" in text):
        if verbose:
            return _both(row, ink, width, field)
        limit = max(_WIDEST_VALUE // 2, (room - 3) // 2)
        text = " → ".join(shorten_pair(clean(row.pair[0]), clean(row.pair[1]), limit))
    if cells(clean(text)) <= value:
        return flow(ink, [*head, Cell(text, "", value), Cell("   ")], row.why, width=width, style="dim")
    lines = flow(ink, head, text, width=width)
    if row.why:
        lines += flow(ink, [Cell(" " * column)], row.why, width=width, style="dim")
    return lines


def _both(row: Row, ink: Ink, width: int, field: int) -> list[str]:
    """A long difference in full: line by line where it has lines, else the old over the new."""
    before, after = row.pair or ("", "")
    lines = flow(ink, [Cell(" " * _INDENT), Cell(row.field, "", field), Cell("  ")], row.why, width=width)
    told = [("-", before), ("+", after)]
    if "\n" in before + after:
        compared = difflib.unified_diff(lines_of(before), lines_of(after), lineterm="")
        told = [(line[0], line[1:]) for line in compared][2:]  # without the two lines that name files
    styles = {"-": "red", "+": "green"}
    for sign, text in told:
        style = styles.get(sign, "dim")
        lines += flow(
            ink, [Cell(" " * (_INDENT + 2)), Cell(sign, style), Cell(" ")], text, width=width, style=style
        )
    return lines


def _operation(ink: Ink, what: str, text: str, width: int) -> list[str]:
    return flow(ink, [Cell(" " * _INDENT), Cell(what, "dim", 4), Cell("  ")], text, width=width, style="dim")
