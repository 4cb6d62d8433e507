"""A table in plain text: rows of cells in, lines out. Never cuts a value: too wide, it stacks instead."""

from __future__ import annotations

from collections.abc import Sequence

from .text import Cell, Ink, cells, clean, flow, pad

_GAP = "  "


def table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], *, ink: Ink, width: int, right: frozenset[str]
) -> list[str]:
    """Columns with something in them, aligned; those named in `right` to the right.

    Where that is wider than `width`, each row becomes a block: its first two cells, then a line a value.
    """
    used = [i for i in range(len(header)) if any(row[i].text for row in rows)]
    sizes = {i: max(cells(header[i]), *(cells(clean(row[i].text)) for row in rows)) for i in used}
    if sum(sizes.values()) + len(_GAP) * (len(used) - 1) > width:
        return [line for row in rows for line in _block(header, row, used, ink, width)]
    titles = [_align(header[i], sizes[i], header[i] in right) for i in used]
    lines = [ink(_GAP.join(titles).rstrip(), "dim")]
    for row in rows:
        texts = [_align(clean(row[i].text), sizes[i], header[i] in right) for i in used]
        texts[-1] = texts[-1].rstrip()
        lines.append(_GAP.join(ink(text, row[i].style) for i, text in zip(used, texts, strict=True)).rstrip())
    return lines


def _align(text: str, size: int, right: bool) -> str:
    return " " * (size - cells(text)) + text if right else pad(text, size)


def _block(
    header: Sequence[str], row: Sequence[Cell], used: Sequence[int], ink: Ink, width: int
) -> list[str]:
    first, second, *rest = used
    lines = flow(ink, [row[first], Cell(" "), row[second]], width=width)
    column = max((cells(header[i]) for i in rest), default=0)
    for i in rest:
        if row[i].text:
            head = [Cell("  "), Cell(header[i], "dim", column), Cell("  ")]
            lines += flow(ink, head, row[i].text, width=width, style=row[i].style)
    return lines
