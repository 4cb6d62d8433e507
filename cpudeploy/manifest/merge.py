"""Precedence. In: layers of settings, outermost first. Out: one layer, every value still with its place.

Maps merge; scalars and lists replace; another kind of source replaces the source. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
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
    "replace",
    "drain",
)
"""A model's settings that may stand on any layer; `port` and `served_name` only on a model and in `on`."""

SOURCE_KEYS = {
    "huggingface": ("revision", "quant", "files", "exclude", "mmproj", "token"),
    "modelscope": ("revision", "quant", "files", "exclude", "mmproj", "token"),
    "url": ("sha256",),
    "upload": (),
    "path": (),
}
"""Kinds of sources and what may stand beside each."""

_SECRET_KEYS = frozenset({"api_key", "password", "token"})


def only(node: Node | None, keys: Iterable[str]) -> Node:
    """A layer with just these keys of a map (an empty one when there is none)."""
    entries = {} if node is None or node.entries is None else node.entries
    kept = {key: entries[key] for key in keys if key in entries}
    return Node(node.where if node is not None else "", node.at if node is not None else "", entries=kept)


def merge(layers: Iterable[Node]) -> Node:
    """One map out of several, the last one strongest. The result stands where the last layer stands."""
    found = list(layers)
    return functools.reduce(_merge_settings, found) if found else Node("", entries={})


def merge_documents(layers: Iterable[Node]) -> Node:
    """Whole manifests, the last one strongest: hosts, models and the like by their names."""
    return functools.reduce(_merge_documents, layers)


def source_kinds(source: Node) -> list[str]:
    """The kinds a source names: one when it is right."""
    return [kind for kind in SOURCE_KEYS if source.get(kind) is not None]


_Merge = Callable[[str, Node, Node], Node]
"""Of one key: the lower map and the upper one to both in one."""


def _merged(lower: Node, upper: Node, inner: _Merge) -> Node:
    """Key by key; what is a map on both sides is left to `inner`."""
    entries = dict(lower.entries or {})
    for key, value in (upper.entries or {}).items():
        below = entries.get(key)
        both = below is not None and below.entries is not None and value.entries is not None
        entries[key] = inner(key, below, value) if both and below is not None else value
    return replace(upper, entries=entries)


def _merge_settings(lower: Node, upper: Node) -> Node:
    return _merged(lower, upper, _merge_setting)


def _merge_setting(key: str, lower: Node, upper: Node) -> Node:
    if key in _SECRET_KEYS:
        return upper  # one reference: of another kind, it doesn't add to the first
    return _merge_sources(lower, upper) if key == "source" else _merge_settings(lower, upper)


def _merge_documents(lower: Node, upper: Node) -> Node:
    return _merged(lower, upper, _merge_part)


def _merge_part(key: str, lower: Node, upper: Node) -> Node:
    if key == "groups":
        return _merged(lower, upper, lambda _, below, above: _merged(below, above, _merge_in_group))
    if key in ("hosts", "registries", "backends", "models"):
        return _merged(lower, upper, lambda _, below, above: _merge_settings(below, above))
    return _merge_settings(lower, upper)


def _merge_in_group(key: str, lower: Node, upper: Node) -> Node:
    return _merge_part(key, lower, upper) if key in ("hosts", "groups") else _merge_setting(key, lower, upper)


def _merge_sources(lower: Node, upper: Node) -> Node:
    kinds, below = source_kinds(upper), source_kinds(lower)
    if kinds and below and kinds != below:
        return upper
    merged = _merge_settings(lower, upper)
    if len(kinds) != 1 or below:
        return merged
    # Kindless defaults (a token, a revision) serve only the kind they fit. A token must not end up at
    # another company: without a kind beside it, it is the one for huggingface.
    fitting = {key for key in SOURCE_KEYS[kinds[0]] if key != "token" or kinds[0] == "huggingface"}
    kept = fitting | set(upper.entries or {})
    return replace(
        merged, entries={key: value for key, value in (merged.entries or {}).items() if key in kept}
    )
