"""The JSON Schemas of what cpudeploy writes, from the types that it writes. Types in, draft 2020-12 out.

What the docstrings of structs and fields say, the schema says, so that neither can tell another story.
`python -m cpudeploy.report.schemas FOLDER` writes `<document>.schema.json`, a file a document.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from ..types.endpoint import EndpointsDocument
from ..types.event import Event
from ..types.facts import Facts
from ..types.resolved import Resolved
from .written import ErrorDocument, PlanDocument, Result

WRITTEN: dict[str, tuple[Any, str]] = {
    "plan": (PlanDocument, "what `plan --format json` prints and `plan -o` saves"),
    "facts": (Facts, "what one host told: an entry of what `facts --format json` prints"),
    "resolved": (Resolved, "what registries and Hubs told"),
    "endpoints": (EndpointsDocument, "what `endpoints --format json` prints"),
    "outcome": (
        Result,
        "what came of an apply, rollback, prune or destroy: the last line of `--format json`",
    ),
    "event": (Event, "what happens meanwhile: every other line of `--format json`"),
    "error": (ErrorDocument, "why a command did nothing: what `--format json` prints then"),
}


def written_schema(document: str) -> dict[str, Any]:
    """The schema of one of WRITTEN."""
    kind, title = WRITTEN[document]
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for each in _structs(kind, {}).values():
        _describe(parts[each.__name__], each)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:cpudeploy:{document}:1",
        "title": title,
        **_standard(schema),
        "$defs": _standard(parts),
    }


def _describe(part: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    if "description" in part:
        part["description"] = _flowing(part["description"])
    for name, text in _told_of_fields(kind).items():
        if name in part["properties"]:
            part["properties"][name] = {"description": _flowing(text), **part["properties"][name]}
    if "schema" in part["properties"] and "schema" not in part.get("required", ()):
        # It has a default for those who build one; a document without it is none.
        part["required"] = ["schema", *part.get("required", ())]


def _told_of_fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Field → the string that stands below it in the source, also of those it inherits."""
    told: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("cpudeploy."):
            continue
        (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner))).body
        statements = getattr(body, "body", [])
        for field, text in itertools.pairwise(statements):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                told[field.target.id] = str(text.value.value)
    return told


def _structs(kind: Any, found: dict[str, type[msgspec.Struct]]) -> dict[str, type[msgspec.Struct]]:
    """Every struct that a document of `kind` may have in it, by name."""
    stack = [msgspec.inspect.type_info(kind)]
    seen: list[Any] = []
    while stack:
        info = stack.pop()
        if any(info is each for each in seen):
            continue
        seen.append(info)
        if isinstance(info, msgspec.inspect.StructType):
            found[info.cls.__name__] = info.cls
            stack += [field.type for field in info.fields]
        for name in ("types", "item_types"):
            stack += getattr(info, name, ())
        for name in ("item_type", "key_type", "value_type", "type"):
            if isinstance(inner := getattr(info, name, None), msgspec.inspect.Type):
                stack.append(inner)
    return found


def _flowing(text: str) -> str:
    """A docstring without the line ends of its source; paragraphs stay."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _standard(part: Any) -> Any:
    """Without what is a word of OpenAPI only."""
    if isinstance(part, dict):
        return {key: _standard(value) for key, value in part.items() if key != "discriminator"}
    return [_standard(item) for item in part] if isinstance(part, list) else part


def main(folder: Path) -> None:
    """Write all of them."""
    for document in WRITTEN:
        text = json.dumps(written_schema(document), indent=2, ensure_ascii=False)
        (folder / f"{document}.schema.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
