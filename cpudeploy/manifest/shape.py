"""Checks a document against its JSON Schema. In: a Node. Out: problems, and the Node with them marked.

The schema's titles finish the sentences, so that validation, documentation and editors have one source.
Values that may be secret (`x-quiet`) are never repeated. What is wrong is marked broken, so that the checks
after this one see only values of the right type, and everything wrong is told at once.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

import jsonschema
from jsonschema.exceptions import ValidationError

from ..data_files import data_dir
from .document import Node, NodePath, plain
from .problems import Problems, nearest, show

_TYPES = {
    "object": "a map",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
}


def load_schema(name: str) -> dict[str, Any]:
    """A shipped schema as plain data."""
    schema: dict[str, Any] = json.loads((data_dir("schemas") / f"{name}.schema.json").read_text("utf-8"))
    return schema


def check_shape(
    root: Node,
    schema_name: Literal["inventory", "playbook"],
    problems: Problems,
    only: Literal["wrong", "missing"] | None = None,
) -> Node:
    """Adds a problem for everything the schema refuses; gives back the document with those parts marked.

    `only`: what is there and wrong (of one of several files, that may leave to others what must be there), or
    what is missing (of all of them together).
    """
    validator = _VALIDATOR(load_schema(schema_name))
    reporter = _Reporter(root, problems)
    for error in _flat(validator.iter_errors(plain(root))):
        if only is None or (only == "missing") == (error.validator in ("required", "dependentRequired")):
            reporter.report(error)
    if not reporter.wrong and not reporter.unknown:
        return root
    return _without(root, reporter.wrong, reporter.unknown, ())


def _pattern(_validator: Any, pattern: str, instance: object, _schema: Any) -> Iterator[ValidationError]:
    """`$` means the end of the text, as in ECMA 262; Python's also stands before a last line break."""
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield ValidationError("does not match")


def _command_line(_validator: Any, _on: bool, instance: object, _schema: Any) -> Iterator[ValidationError]:
    """A text that falls into a command and its arguments as a shell would split it."""
    try:
        empty = isinstance(instance, str) and not shlex.split(instance)
    except ValueError:
        empty = True
    if empty:
        yield ValidationError("no command")


_VALIDATOR = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    validators={"pattern": _pattern, "x-commandLine": _command_line},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def _flat(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """Errors one can point at: of an `anyOf`, those of the one branch that was meant."""
    for error in errors:
        branches: dict[object, list[ValidationError]] = defaultdict(list)
        for inner in error.context or ():
            branches[inner.relative_schema_path[0]].append(inner)
        meant = [found for found in branches.values() if not any(_wrong_kind(inner) for inner in found)]
        if len(meant) == 1 and any(inner.relative_path or _speaks_of_keys(inner) for inner in meant[0]):
            yield from _flat(meant[0])
        else:
            yield error


def _wrong_kind(error: ValidationError) -> bool:
    return not error.relative_path and error.validator in ("type", "const", "enum")


def _speaks_of_keys(error: ValidationError) -> bool:
    """Of what is in a map or list, rather than of the map or list itself."""
    return error.validator in (
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "minItems",
    )


class _Reporter:
    """Turns schema errors into sentences and remembers which parts are wrong."""

    def __init__(self, root: Node, problems: Problems) -> None:
        self._root = root
        self._problems = problems
        self.wrong: set[NodePath] = set()
        self.unknown: set[NodePath] = set()

    def report(self, error: ValidationError) -> None:
        path: NodePath = tuple(error.absolute_path)
        node, broken = _find(self._root, path)
        if broken:
            self.wrong.add(path)
        elif error.validator == "additionalProperties":
            self._unknown_keys(error, node, path)
        elif isinstance(error.instance, str) and node.entries is not None:
            self._bad_key(error, node, path)
        else:
            self.wrong.add(path)
            what, do = self._sentence(error, path)
            self._problems.add(node.place, what, do)

    def _unknown_keys(self, error: ValidationError, node: Node, path: NodePath) -> None:
        known = _mapping(error.schema).get("properties", {})
        for key, value in (node.entries or {}).items():
            if key not in known:
                self.unknown.add((*path, key))
                inside = f" in {show(dotted(path))}" if path else ""
                self._problems.add(value.at, f"unknown key {show(key)}{inside}", nearest(key, known))

    def _bad_key(self, error: ValidationError, node: Node, path: NodePath) -> None:
        key = str(error.instance)
        where = node.entries[key].at if node.entries and key in node.entries else node.place
        self.wrong.add((*path, key))
        self._problems.add(where, f"{show(key)} must be {_title(error)}", "choose another name")

    def _sentence(self, error: ValidationError, path: NodePath) -> tuple[str, str]:
        """What is wrong, and what to do."""
        name = show(dotted(path)) if path else "the file"
        instance, wanted = error.instance, _title(error)
        example = _example(error)
        if instance is None:
            empty = " ({} for none)" if _mapping(error.schema).get("type") == "object" else ""
            return f"{name} has no value", f"give {wanted}{empty}, or remove the key"
        if error.validator in ("required", "dependentRequired"):
            missing = _missing(error)
            return f"{name} lacks {' and '.join(f'`{key}`' for key in missing)}", "add it"
        if error.validator in ("minItems", "minProperties", "minLength") and not instance:
            return f"{name} is empty", f"it must be {wanted}{example}"
        if error.validator == "uniqueItems":
            return f"{name} names something twice", "keep one"
        if error.validator in ("maxProperties", "maxItems"):
            return f"{name} has too many entries", f"it must be {wanted}"
        quiet = _mapping(error.schema).get("x-quiet") or isinstance(instance, (dict, list))
        found = f", not {_kind(instance) if quiet else show(instance)}"
        return f"{name} must be {wanted}{found}", _hint(error, example)


def dotted(path: NodePath) -> str:
    """A path as people write it: `models.qwen.on[0].port`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _title(error: ValidationError) -> str:
    schema = _mapping(error.schema)
    wanted = schema.get("title")
    if wanted is None and isinstance(error.parent, ValidationError):
        return _title(error.parent)
    return str(wanted or _TYPES.get(str(error.validator_value), "something else"))


def _example(error: ValidationError) -> str:
    examples = _mapping(error.schema).get("examples")
    return f", such as {json.dumps(examples[0])}" if examples else ""


def _hint(error: ValidationError, example: str) -> str:
    schema = _mapping(error.schema)
    wants_text = "string" in schema.get("type", ()) or "enum" in schema
    if wants_text and error.validator in ("type", "enum") and isinstance(error.instance, (int, float)):
        return f"put text in quotes{example}"
    if schema.get("type") == "array":
        return f"write a list{example or ': [a, b]'}"
    return f"write {example.removeprefix(', such as ')}" if example else ""


def _missing(error: ValidationError) -> list[str]:
    here = _mapping(error.instance)
    wanted: Any = error.validator_value
    if error.validator == "required":
        # jsonschema gives one error a missing key; they are told together, once.
        return [key for key in wanted if key not in here]
    return [key for given, needed in wanted.items() if given in here for key in needed if key not in here]


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else "true or false" if isinstance(value, bool) else "a number"


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _find(root: Node, path: NodePath) -> tuple[Node, bool]:
    """The node at `path`, and whether it or anything above it was reported already."""
    node = root
    for part in path:
        if node.broken:
            break
        node = node.entries[str(part)] if node.entries is not None else (node.items or ())[int(part)]
    return node, node.broken


def _without(node: Node, wrong: set[NodePath], unknown: set[NodePath], path: NodePath) -> Node:
    """The tree with `wrong` parts marked broken (they were meant: not missing), without `unknown` keys."""
    if path in wrong and path:
        return replace(node, value=None, entries=None, items=None, broken=True)
    if node.entries is not None:
        entries = {
            key: _without(value, wrong, unknown, (*path, key))
            for key, value in node.entries.items()
            if (*path, key) not in unknown
        }
        return replace(node, entries=entries)
    if node.items is not None:
        items = (_without(value, wrong, unknown, (*path, i)) for i, value in enumerate(node.items))
        return replace(node, items=tuple(items))
    return node
