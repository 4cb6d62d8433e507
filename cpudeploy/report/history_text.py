"""What was applied to each host, for people and as data. HostHistory in, text or JSON data out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types.base import to_data
from ..types.history import HistoryInstance, HistoryRelease, HostHistory
from ..types.plan import FieldDiff
from ..types.words import count
from .numbers import duration
from .plan_changes import diff_values
from .text import Cell, Ink, flow, widest

HISTORY_SCHEMA = "cpudeploy.history/1"
_SIGNS = {"new": ("+", "green"), "changed": ("~", "yellow"), "same": ("=", "dim"), "removed": ("-", "red")}
_STYLES = {"serving": "green", "failed": "red", "down": "red", "kept": "yellow"}
_BECAME = {"unproven": "never proven", "down": "serves, but is down", "kept": "kept while another starts"}
_WIDEST = 28
_LONGEST_VALUE = 60


def render_history(
    deployment: str, hosts: Sequence[HostHistory], *, colour: bool, width: int, verbose: bool
) -> str:
    """Host by host, newest release first; no line end at the end."""
    ink = Ink(colour)
    blocks = [_host(deployment, host, ink, width, verbose) for host in hosts]
    return "\n\n".join("\n".join(block) for block in blocks)


def history_data(deployment: str, hosts: Sequence[HostHistory]) -> dict[str, Any]:
    """The same as JSON data."""
    return {"schema": HISTORY_SCHEMA, "deployment": deployment, "hosts": to_data(list(hosts))}


def _host(deployment: str, host: HostHistory, ink: Ink, width: int, verbose: bool) -> list[str]:
    head = [Cell(host.host, "bold"), Cell("   ")]
    if host.unreachable:
        return flow(ink, head, f"unreachable: {host.unreachable}", width=width, style="red")
    if host.unknown:
        return flow(ink, head, f"unknown: {host.unknown}", width=width, style="red")
    if not host.releases:
        return flow(ink, head, f"nothing of {deployment} was applied here", width=width)
    lines = flow(ink, head, f"{deployment} · {count(len(host.releases), 'release')}", width=width)
    origins = [release.origin for release in host.releases]
    for release, before in zip(host.releases, [*origins[1:], ""], strict=True):
        lines += _release(release, ink, width, verbose, with_origin=verbose or release.origin != before)
    return lines


def _release(release: HistoryRelease, ink: Ink, width: int, verbose: bool, *, with_origin: bool) -> list[str]:
    head = [Cell("  "), Cell(release.release, "bold"), Cell("   ")]
    if release.unreadable:
        return flow(ink, head, f"can't be read: {release.unreadable}", width=width, style="yellow")
    when = release.created if release.age_s is None else f"{duration(release.age_s)} ago"
    parts = [when, f"by {release.by}" if release.by else "", "serves now" if release.current else ""]
    lines = flow(ink, head, " · ".join(part for part in parts if part), width=width)
    if with_origin and release.origin:
        lines += flow(ink, [Cell("      "), Cell("from ", "dim")], release.origin, width=width, style="dim")
    model = widest((each.model for each in release.instances), most=_WIDEST)
    for instance in release.instances:
        lines += _instance(instance, ink, width, model, verbose)
    if release.missing:
        gone = f"no way back to it: {', '.join(release.missing)} is not here any more"
        lines += flow(ink, [Cell("      "), Cell("!", "yellow"), Cell(" ")], gone, width=width)
    return lines


def _instance(instance: HistoryInstance, ink: Ink, width: int, model: int, verbose: bool) -> list[str]:
    sign, style = _SIGNS[instance.change]
    head = [Cell("      "), Cell(sign, style), Cell(" "), Cell(instance.model, "", model), Cell("  ")]
    became = _BECAME.get(instance.became, instance.became)
    if instance.why:
        became = f"{became}: {instance.why}"
    parts = [*_fields(instance.diff, verbose), became]
    return flow(
        ink,
        head,
        " · ".join(part for part in parts if part),
        width=width,
        style=_STYLES.get(instance.became, ""),
    )


def _fields(diff: Sequence[FieldDiff], verbose: bool) -> list[str]:
    """The fields that differ in the manifest's words; those that only follow on request."""
    shown = [each for each in diff if verbose or not each.field.startswith("container.")]
    if diff and not shown:
        return ["its settings (-v shows them)"]
    return [_field(each, verbose) for each in shown]


def _field(diff: FieldDiff, verbose: bool) -> str:
    before, after = diff_values(diff)
    if not verbose and len(before) + len(after) > _LONGEST_VALUE:
        return f"{diff.field} differs"
    return f"{diff.field} {before} → {after}"
