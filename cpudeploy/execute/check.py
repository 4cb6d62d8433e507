"""Does an answer satisfy a health check? Status and body in, what differs out. Pure."""

from __future__ import annotations

import json
from typing import Any

from ..types.release import Check

_SHOWN = 160


def differs(check: Check, status: int, body: bytes) -> str:
    """Empty when `check` passes; else one clause that tells what came instead."""
    if status != check.status:
        return f"HTTP {status} {_text(body)}".rstrip()
    if check.pointer is None:
        return ""
    try:
        found = values(json.loads(body), check.pointer)
    except ValueError:
        return f"an answer that is not JSON: {_text(body)}"
    if check.equals is None:
        return "" if any(value is not None for value in found) else f"nothing at {check.pointer}"
    if any(_as_text(value) == check.equals for value in found):
        return ""
    shown = ", ".join(_as_text(value) for value in found[:5]) or "nothing"
    return f"{shown} at {check.pointer} instead of {check.equals}"


def values(document: Any, pointer: str) -> list[Any]:
    """All values at a JSON pointer (RFC 6901) in which `*` stands for any element of a list."""
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


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
