"""Does an answer satisfy a health check? Status and body in, what differs out. Pure."""

from __future__ import annotations

import json
from typing import Any

from ..types.pointer import values
from ..types.release import Check

_SHOWN = 160
_NOT_YET = (408, 409, 425, 429)


def differs(check: Check, status: int, body: bytes) -> str:
    """Empty when `check` passes; else one clause that tells what came instead."""
    if status != check.status:
        return f"HTTP {status} {_text(body)}".rstrip()
    if check.pointer is None:
        return ""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return f"an answer that is not JSON: {_text(body)}"
    found = values(document, check.pointer)
    if check.equals is None:
        return "" if any(value is not None for value in found) else f"nothing at {check.pointer}"
    if any(_as_text(value) == check.equals for value in found):
        return ""
    shown = ", ".join(_as_text(value) for value in found[:5]) or "nothing"
    return f"{shown} at {check.pointer} instead of {check.equals}"


def is_final(status: int) -> bool:
    """Whether an answer that does not pass tells of a setting, and not of a model that is not ready: the
    request is refused, or answered otherwise than it should be."""
    return 200 <= status < 500 and status not in _NOT_YET


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
