"""The schemas of everything cpudeploy reads and writes, for editors and programs. Pure.

In: the name of a document. Out: its JSON Schema in standard words alone, as it ships in `schemas/`. Those
of what is read are written by hand; those of what is written come from the types (`report.schemas`).
"""

from __future__ import annotations

from typing import Any, cast

from .shape import load_schema

SCHEMAS = (
    *("inventory", "include", "playbook"),
    *("plan", "facts", "resolved", "endpoints", "outcome", "event", "error"),
)
"""Documents that have one. `include`: a file that a manifest includes."""


def published(document: str) -> dict[str, Any]:
    """The schema of one of SCHEMAS. Raises KeyError for any other."""
    if document not in SCHEMAS:
        raise KeyError(document)
    if document == "include":
        whole = _standard(load_schema("inventory"))
        del whole["required"]
        return {**whole, "$id": "urn:cpudeploy:include:1", "title": "a part of a manifest"}
    return _standard(load_schema(document))


def _standard(schema: dict[str, Any]) -> dict[str, Any]:
    """Without our own keys and what only authors care for."""
    return cast("dict[str, Any]", _without_own(schema))


def _without_own(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: _without_own(value)
            for key, value in part.items()
            if not key.startswith("x-") and key != "$comment"
        }
    return [_without_own(item) for item in part] if isinstance(part, list) else part
