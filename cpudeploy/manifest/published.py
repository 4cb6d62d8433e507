"""The schemas of everything cpudeploy reads and writes, for editors and programs. Pure.

In: the name of a document. Out: its JSON Schema in standard words alone. What is read has its schema from
`schemas/`; what is written, from its type.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ..types.facts import Facts
from ..types.plan import Plan
from ..types.resolved import Resolved
from .shape import load_schema

_WRITTEN = {"plan": Plan, "facts": Facts, "resolved": Resolved}
SCHEMAS = ("inventory", "include", "playbook", *_WRITTEN)
"""Documents that have one. `include`: a file that a manifest includes."""


def published(document: str) -> dict[str, Any]:
    """The schema of one of SCHEMAS. Raises KeyError for any other."""
    if document in ("inventory", "playbook"):
        return _standard(load_schema("inventory" if document == "inventory" else "playbook"))
    if document == "include":
        whole = _standard(load_schema("inventory"))
        del whole["required"]
        return {**whole, "$id": "urn:cpudeploy:include:1", "title": "a part of a manifest"}
    kind = _WRITTEN[document]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:cpudeploy:{document}:1",
        **_standard(msgspec.json.schema(kind)),
    }


def _standard(schema: dict[str, Any]) -> dict[str, Any]:
    """Without our own keys, what only authors care for, and what msgspec has from OpenAPI."""
    return cast("dict[str, Any]", _without_own(schema))


def _without_own(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: _without_own(value)
            for key, value in part.items()
            if not key.startswith("x-") and key not in ("$comment", "discriminator")
        }
    return [_without_own(item) for item in part] if isinstance(part, list) else part
