"""Endpoints as a table. An EndpointsDocument in, text out."""

from __future__ import annotations

from collections import Counter

from ..types.endpoint import SERVING, EndpointsDocument, ModelEndpoint
from .endpoints_usable import key_words
from .table import table
from .text import Cell, Ink, flow

_HEADER = ("model", "host", "instance", "url", "reach", "name", "key", "state")


def render_endpoints(document: EndpointsDocument, *, colour: bool, width: int) -> str:
    """A row each; below, why an address is unknown, and how to reach what only its own host can."""
    if not document.endpoints:
        return "no model is placed here"
    ink = Ink(colour)
    numbered = Counter((each.model, each.host) for each in document.endpoints)
    rows = [_cells(each, several=numbered[each.model, each.host] > 1) for each in document.endpoints]
    lines = table(_HEADER, rows, ink=ink, width=width, right=frozenset({"instance"}))
    for each in document.endpoints:
        words = each.problem or (f"bring it here: {each.tunnel}" if each.tunnel else "")
        if words:
            head = [Cell(f"{each.model} on {each.host}", "bold"), Cell("  ")]
            lines += flow(ink, head, words, width=width, style="yellow" if each.problem else "")
    return "\n".join(lines)


def _cells(each: ModelEndpoint, *, several: bool) -> list[Cell]:
    return [
        Cell(each.model, "bold"),
        Cell(each.host),
        Cell(str(each.instance) if several else ""),
        Cell(each.url or "unknown", "" if each.url else "yellow"),
        Cell("" if not each.url else "its host only" if each.reach == "host" else "network"),
        Cell(each.served_name if each.served_name != each.model else ""),
        Cell("" if each.problem else key_words(each.key) if each.key else "none"),
        Cell(each.state, "green" if each.state == SERVING else "yellow"),
    ]
