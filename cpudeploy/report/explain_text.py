"""The reasons of all numbers, for people: Explanation in, text out. Each number says where it is from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..types.allocation import Allocation
from ..types.explanation import Explained, Explanation
from .numbers import memory_size
from .text import Cell, Ink, cells, flow

_PARTS = (
    ("weights", "weights"),
    ("repack", "rearranged"),
    ("kv", "KV cache"),
    ("state", "state"),
    ("compute", "compute"),
    ("engine", "engine"),
    ("cache", "prompt cache"),
    ("projector", "projector"),
    ("files", "loading"),
    ("compile", "compiling"),
)
"""Fields of a MemoryNeed, and what they are called."""


class _Row(NamedTuple):
    field: str
    value: str
    why: str = ""


def render_explanation(told: Explanation, *, colour: bool, width: int) -> str:
    """Instance by instance, then the hosts that tell nothing. No line end at the end."""
    ink = Ink(colour)
    lines: list[str] = []
    if told.recorded:
        lines += flow(ink, [], f"from recorded facts of {told.recorded}", width=width, style="dim")
    for each in told.instances:
        lines += [*([""] if lines else []), *_instance(each, ink, width)]
    for host, reasons in told.untold.items():
        lines += [""] if lines else []
        for why in reasons:
            lines += flow(ink, [Cell("! ", "yellow"), Cell(host, "bold"), Cell("  ")], why, width=width)
    return "\n".join(lines)


def _instance(each: Explained, ink: Ink, width: int) -> list[str]:
    name = each.model if not each.allocation.instance else f"{each.model} {each.allocation.instance}"
    head = [Cell(each.host, "bold"), Cell("  "), Cell(name, "bold"), Cell("   ")]
    lines = flow(ink, head, f"backend {each.backend}{_at(each, 'backend')}", width=width)
    rows = list(_rows(each))
    field = max(cells(row.field) for row in rows)
    value = max(cells(row.value) for row in rows)
    for row in rows:
        cellular = [Cell("  "), Cell(row.field, "cyan", field), Cell("  "), Cell(row.value, "", value)]
        lines += flow(ink, [*cellular, Cell("   ")] if row.why else cellular, row.why, width=width)
    for warning in each.allocation.warnings:
        lines += flow(ink, [Cell("  "), Cell("!", "yellow"), Cell(" ")], warning, width=width)
    return lines


def _rows(each: Explained) -> Iterator[_Row]:
    allocation = each.allocation
    why = allocation.reasons
    yield _Row("cpus", allocation.cpuset, why.get("cpus", "") + _at(each, "cpus"))
    yield _Row("threads", str(allocation.threads), why.get("threads", ""))
    yield _Row("for prompts", str(allocation.threads_batch), why.get("threads_batch", ""))
    if allocation.ranks > 1:
        yield _Row("ranks", str(allocation.ranks), "parts of the model, each on a NUMA node of its own")
    yield _Row("NUMA memory", allocation.mems or "any", why.get("mems", ""))
    yield _Row(
        "context",
        str(allocation.context),
        why.get("context", "tokens a request, as asked") + _at(each, "context"),
    )
    parallel = "requests at a time" if "parallel" in each.written else "the default: one request at a time"
    yield _Row("parallel", str(allocation.parallel), parallel + _at(each, "parallel"))
    yield _Row(
        "memory",
        memory_size(allocation.memory),
        f"the container's limit: {why.get('limit', 'as it is')}" + _at(each, "memory"),
    )
    yield from _parts(allocation)
    yield _Row("port", str(each.port), f"as given{_at(each, 'port')}, on {each.listen}{_at(each, 'listen')}")


def _parts(allocation: Allocation) -> Iterator[_Row]:
    for field, label in _PARTS:
        size: int = getattr(allocation.need, field)
        if size:
            yield _Row(f"  {label}", memory_size(size), allocation.reasons.get(field, ""))
    yield _Row("  in all", memory_size(allocation.need.total), "the most it is expected to use")


def _at(each: Explained, setting: str) -> str:
    """Where a setting was written, if it was."""
    return f" ({each.written[setting]})" if setting in each.written else ""
