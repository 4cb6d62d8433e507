"""What could run where, as a table a model and host, and as data. Recommendations in, text or data out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..types.base import to_data
from ..types.recommendation import Choice, Rate, Recommendation
from ..types.words import count
from .numbers import data_size, memory_size, rate
from .table import table
from .text import Cell, Ink, flow

RECOMMEND_SCHEMA = "cpudeploy.recommend/1"
_HEADER = ("quant", "engine", "files", "memory", "fits", "most that fits", "one", "together")
_LIMITS = {
    "memory": "reading memory",
    "cores": "the cores' arithmetic, memory would give more",
    "steps": "the steps between its layers, it is small",
}
_COLUMN = 8
_VERDICTS = {
    "poor": "a poor choice here",
    "open": "may go either way, measure it",
    "may win": "may win here, measure it",
}


def recommend_data(deployment: str, told: Sequence[Recommendation]) -> dict[str, Any]:
    """The recommendations as JSON data."""
    return {"schema": RECOMMEND_SCHEMA, "deployment": deployment, "recommendations": to_data(list(told))}


def render_recommendations(told: Sequence[Recommendation], *, colour: bool, width: int) -> str:
    """A block each. No line end at the end."""
    if not told:
        return "no model is placed here"
    ink = Ink(colour)
    return "\n\n".join("\n".join(_block(each, ink, width)) for each in told)


def _block(each: Recommendation, ink: Ink, width: int) -> list[str]:
    head = [Cell(each.model, "bold"), Cell(" on "), Cell(each.host, "bold"), Cell("   ")]
    if each.problem:
        return flow(ink, head, each.problem, width=width, style="red")
    wish = f"context {each.context} × {count(each.parallel, 'request')}"
    threads = f" · {count(each.threads, 'thread')}" if each.threads else ""
    reads = f" · memory reads {rate(each.bandwidth)}" if each.bandwidth else ""
    lines = flow(ink, head, wish + threads + reads, width=width)
    rows = [_cells(each, choice) for choice in each.choices]
    right = frozenset({"files", "memory", "one", "together"})
    lines += ["  " + line for line in table(_HEADER, rows, ink=ink, width=width - 2, right=right)]
    for word, text in _below(each):
        lines += flow(ink, [Cell("  "), Cell(word, "cyan", _COLUMN), Cell("  ")], text, width=width)
    return lines


def _cells(each: Recommendation, choice: Choice) -> list[Cell]:
    about = "≈ " if choice.estimated else ""
    own = next((other.backend for other in each.choices if other.chosen), choice.backend)
    wish, speed = choice.wish, choice.speed
    return [
        Cell(f"{choice.quant} *" if choice.chosen else choice.quant),
        Cell(choice.backend if len({other.backend for other in each.choices}) > 1 else ""),
        Cell(("≈ " if choice.backend != own else "") + data_size(choice.size)),
        Cell(about + memory_size(wish.memory) if wish else "–"),
        Cell("yes", "green") if wish else Cell("no", "red"),
        Cell(_most(each, choice)),
        Cell(_range(speed.one) if wish and speed else ""),
        Cell(_range(speed.total) if wish and speed and each.parallel > 1 else ""),
    ]


def _most(each: Recommendation, choice: Choice) -> str:
    """The largest context with the requests as wished, and the most requests with the context as wished;
    where neither is to be had the largest of all."""
    longer = max((way.context for way in choice.largest if way.parallel >= each.parallel), default=0)
    more = max((way.parallel for way in choice.largest if way.context >= each.context), default=0)
    ways = {(longer, each.parallel), (each.context, more)} if longer or more else set()
    if not ways and choice.largest:
        ways = {max(((way.context, way.parallel) for way in choice.largest), key=lambda way: way[0] * way[1])}
    told = [way for way in ways if all(way) and not any(_outdoes(other, way) for other in ways)]
    return (
        ", ".join(f"{context} × {parallel}" for context, parallel in sorted(told, reverse=True)) or "nothing"
    )


def _outdoes(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def _below(each: Recommendation) -> Iterator[tuple[str, str]]:
    """What stands below the table: word, text."""
    chosen = next((choice for choice in each.choices if choice.chosen), None)
    if chosen is not None and chosen.why:
        yield "why not", f"{chosen.quant}: {chosen.why}"
    yield "speed", _speed(each, chosen)
    for note in each.notes:
        yield "note", note
    if each.engine is not None:
        yield (
            "engine",
            f"{each.engine.backend}: {_VERDICTS[each.engine.verdict]}: {'; '.join(each.engine.reasons)}",
        )
    advice = each.advice
    if advice is None:
        yield "advised", "nothing of it fits here as things are"
        return
    what = f"{advice.quant}, context {advice.context} × {count(advice.parallel, 'request')}: {advice.why}"
    if not advice.lines:
        yield "advised", f"{what}; as the manifest says"
        return
    yield "advised", what
    yield "", "\n".join(["models:", f"  {advice.name}:", *(f"    {line}" for line in advice.lines)])


def _speed(each: Recommendation, chosen: Choice | None) -> str:
    if each.bandwidth is None:
        return "not known, since this host's memory was not measured: add --measure"
    rows = [choice for choice in each.choices if choice.wish and choice.speed]
    shown = chosen if chosen in rows else next(iter(rows), None)
    if shown is None or shown.speed is None:
        return (
            "no range: so little is read a token that caches decide and not memory"
            if any(choice.wish for choice in each.choices)
            else "no range: nothing fits as wished"
        )
    together = f", and of {each.parallel} together" if each.parallel > 1 else ""
    return (
        f"tokens a second of one request{together}; {shown.quant} reads {data_size(shown.speed.read)} a "
        f"token, and its fast end is held by {_LIMITS[shown.speed.limit]}"
    )


def _range(told: Rate) -> str:
    return f"{_number(told.low)}–{_number(told.high)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
