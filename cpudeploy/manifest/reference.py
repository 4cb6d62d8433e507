"""The manifest's reference. In: the inventory schema. Out: Markdown, a section for every top-level key.

Everything said about a key comes from the schema, so the page can't tell another story than validation. Pure.
`python -m cpudeploy.manifest.reference HEAD EXAMPLE` prints the page: a text by hand with the example in it,
then the reference.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from .shape import load_schema

_EXAMPLE = "<!-- example -->"
"""Where the example goes in the head of the page."""
_VALUES = {
    "name": "name",
    "secret": "secret",
    "size": "size",
    "webAddress": "web address",
    "absolutePath": "absolute path",
    "localPath": "path",
    "glob": "glob",
}
"""Definitions that are kinds of values, explained once; every other definition is a setting."""
_ONCE = frozenset({"groups", "hostMap"})
"""Definitions that have a section of their own, and are only named elsewhere."""
_SHARED = """\
All may stand under `defaults`, in a group and on a host. `ssh`, `sudo`, `engine`, `dirs`, `reserve`, `labels`
and `playbooks` are settings of a host. The others are settings of a model, and may stand on a model and in an
entry of `on` too.
"""


def page(head: str, example: str, schema: dict[str, Any]) -> str:
    """The whole page: `head` with `example` in its place, and the reference."""
    block = f"```yaml\n{example.strip()}\n```"
    return f"{head.replace(_EXAMPLE, block)}\n{reference(schema)}"


def reference(schema: dict[str, Any]) -> str:
    """A section for every top-level key, one for settings of several places, one for kinds of values."""
    pen = _Pen(schema)
    parts = [
        pen.section(key, value, required=key in schema["required"])
        for key, value in schema["properties"].items()
    ]
    parts += [f"## Shared settings\n\n{_SHARED}", *pen.items(schema["properties"]["defaults"], hidden=())]
    parts += ["\n## Kinds of values\n"]
    parts += [line for name, title in _VALUES.items() for line in pen.item(title, schema["$defs"][name])]
    return "\n".join(parts) + "\n"


class _Pen:
    """Renders pieces of one schema. An item is a list entry, its own keys indented below it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._defs: dict[str, Any] = schema["$defs"]
        self._shared = frozenset(schema["properties"]["defaults"]["properties"])

    def section(self, key: str, schema: dict[str, Any], *, required: bool) -> str:
        """One top-level key; what may stand in several places is left to its own section."""
        lines = [f"## `{key}`", "", _filled(("Required. " if required else "") + self._words(schema)), ""]
        schema = self._whole(schema)
        entry = schema.get("additionalProperties")
        if isinstance(entry, dict):
            lines += [
                f"For each {'registry' if key == 'registries' else key.removesuffix('s')}, by its name:",
                "",
            ]
        lines += self.items(schema, hidden=self._shared)
        shared = self._shared & set(self._whole(entry or schema).get("properties", ()))
        if shared:
            lines += [
                f"- any of the [shared settings](#shared-settings){'' if 'ssh' in shared else ' of a model'}"
            ]
        return "\n".join(lines).rstrip() + "\n"

    def items(self, schema: dict[str, Any], hidden: Collection[str], depth: int = 0) -> Iterator[str]:
        """The keys that a map, the entries of a list or the forms of a value may have, but the `hidden`."""
        for form in self._forms(schema):
            for key, value in form.get("properties", {}).items():
                if key not in hidden:
                    yield from self.item(key, value, depth, required=key in form.get("required", ()))

    def item(
        self, key: str, schema: dict[str, Any], depth: int = 0, *, required: bool = False
    ) -> Iterator[str]:
        """A key with what it takes and means, and the keys below it."""
        mark = " (required)" if required else ""
        yield _filled(f"- **`{key}`**{mark}: {self._words(schema)}", indent="  " * depth)
        if not self._elsewhere(schema):
            below = self._shared | {"port", "served_name"} if key == "on" else ()
            yield from self.items(self._whole(schema), below, depth + 1)
            if below:
                yield "  " * (depth + 1) + "- any setting of the model but `on`"

    def _words(self, schema: dict[str, Any]) -> str:
        """What a value is, what it means, what holds without it, an example."""
        kind = _VALUES.get(_name(schema))
        # A kind of value is explained in its own place: here only what is said for this key.
        whole = schema if kind else self._whole(schema)
        takes = f"[{kind}](#kinds-of-values)" if kind else f"*{whole['title']}*" if "title" in whole else ""
        words = [f"{takes}." if takes else "", whole.get("description", "")]
        if "default" in whole:
            words.append(f"Default: `{_yaml(whole['default'])}`.")
        if "examples" in whole:
            words.append(f"Such as {', '.join(f'`{_yaml(example)}`' for example in whole['examples'])}.")
        return " ".join(word for word in words if word)

    def _whole(self, schema: dict[str, Any]) -> dict[str, Any]:
        """With what its `$ref` says, its own words winning."""
        return {**self._defs.get(_name(schema), {}), **schema}

    def _forms(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The map itself, that of each entry, and each of several forms; not what is told elsewhere."""
        yield schema
        for each in (schema.get("additionalProperties"), schema.get("items"), *schema.get("anyOf", ())):
            if isinstance(each, dict) and not self._elsewhere(each):
                yield from self._forms(self._whole(each))

    def _elsewhere(self, schema: dict[str, Any]) -> bool:
        return _name(schema) in _VALUES or _name(schema) in _ONCE


def _name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _filled(text: str, indent: str = "") -> str:
    hanging = f"{indent}  " if text.startswith("- ") else indent
    return textwrap.fill(text, 118, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False)


def _yaml(value: object) -> str:
    """A value on one line, as one would write it in a manifest."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("...\n").strip()


if __name__ == "__main__":
    head, example = (Path(argument).read_text("utf-8") for argument in sys.argv[1:])
    print(page(head, example, load_schema("inventory")), end="")
