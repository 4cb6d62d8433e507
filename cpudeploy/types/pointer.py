"""JSON pointers (RFC 6901) into plain JSON data: a document and a pointer in, what stands there out. Pure.

One walker for fingerprints and health checks. `*` stands for every element of a list.
"""

from __future__ import annotations

from typing import Any


def lookup(document: Any, pointer: str) -> Any:
    """The value at `pointer`, or None where there is none. Raises ValueError for what is no pointer."""
    return next(iter(values(document, pointer)), None)


def values(document: Any, pointer: str) -> list[Any]:
    """All values at `pointer`: at most one without a `*`. Raises ValueError for what is no pointer."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"not a JSON pointer: {pointer!r}")
    found = [document]
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        found = [inner for value in found for inner in _step(value, key)]
    return found


def _step(value: Any, key: str) -> list[Any]:
    if isinstance(value, dict):
        return [value[key]] if key in value else []
    if isinstance(value, list):
        if key == "*":
            return value
        if key.isascii() and key.isdigit() and int(key) < len(value):
            return [value[int(key)]]
    return []
