"""Precedence. In: layers of settings, outermost first. Out: one layer, every value still with its place.

Maps merge; scalars and lists replace; another kind of source replaces the source. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .document import Node

HOST_KEYS = ("ssh", "sudo", "engine", "dirs", "reserve", "labels", "playbooks")
MODEL_KEYS = (
    "task",
    "source",
    "fetch",
    "backend",
    "each",
    "listen",
    "context",
    "parallel",
    "cpus",
    "memory",
    "api_key",
    "args",
    "env",
)
"""A model's settings that may stand on any layer; `port` and `served_name` only on a model and in `on`."""

SOURCE_KEYS = {
    "huggingface": ("revision", "quant", "files", "token"),
    "url": ("sha256",),
    "path": (),
}
"""Kinds of sources and what may stand beside each."""


def only(node: Node | None, keys: Iterable[str]) -> Node:
    """A layer with just these keys of a map (an empty one when there is none)."""
    entries = {} if node is None or node.entries is None else node.entries
    kept = {key: entries[key] for key in keys if key in entries}
    return Node(node.where if node is not None else "", node.at if node is not None else "", entries=kept)


def merge(layers: Iterable[Node]) -> Node:
    """One map out of several, the last one strongest. The result stands where the last layer stands."""
    result: Node | None = None
    for layer in layers:
        result = layer if result is None else _merge_maps(result, layer, top=True)
    return result if result is not None else Node("", entries={})


def _merge_maps(lower: Node, upper: Node, *, top: bool = False) -> Node:
    entries = dict(lower.entries or {})
    for key, value in (upper.entries or {}).items():
        below = entries.get(key)
        if below is None or below.entries is None or value.entries is None:
            entries[key] = value
        elif top and key == "api_key":
            # A secret is one reference: one of another kind doesn't add to it.
            entries[key] = value
        elif top and key == "source":
            entries[key] = _merge_sources(below, value)
        else:
            entries[key] = _merge_maps(below, value)
    return replace(upper, entries=entries)


def source_kinds(source: Node) -> list[str]:
    """The kinds a source names: one when it is right."""
    return [kind for kind in SOURCE_KEYS if source.get(kind) is not None]


def _merge_sources(lower: Node, upper: Node) -> Node:
    kinds, below = source_kinds(upper), source_kinds(lower)
    if kinds and below and kinds != below:
        return upper
    merged = _merge_maps(lower, upper)
    if len(kinds) != 1 or below:
        return merged
    # Kindless defaults (a token, a revision) serve only the kind they fit.
    fitting = (*SOURCE_KEYS[kinds[0]], *(upper.entries or {}))
    return replace(
        merged, entries={key: value for key, value in (merged.entries or {}).items() if key in fitting}
    )
