"""Typed reading of a merged map. In: a Node whose shape was checked. Out: plain values, or None.

What is missing and what is broken (already reported) both read as None; `missing` tells them apart.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ..types.base import SecretRef
from .document import Node
from .problems import Problems, show
from .sizes import parse_duration, parse_size


def given(**values: object) -> dict[str, object]:
    """What is not None: for the rest the types' own defaults hold."""
    return {key: value for key, value in values.items() if value is not None}


class Settings:
    """A map's values by type."""

    def __init__(self, node: Node | None) -> None:
        self.node = node if node is not None else Node("", entries={})

    def get(self, key: str) -> Node | None:
        """The sound node at a key."""
        node = self.node.get(key)
        return None if node is None or node.broken else node

    def missing(self, key: str) -> bool:
        """Nobody wrote it (a broken value was written)."""
        return self.node.get(key) is None

    def inner(self, key: str) -> Settings:
        """A map inside this one, empty when absent."""
        return Settings(self.get(key))

    def place(self, key: str) -> str:
        """Where a key's value is, else where the map is."""
        node = self.node.get(key)
        return node.place if node is not None else self.node.place

    def text(self, key: str) -> str | None:
        node = self.get(key)
        return node.value if node is not None and isinstance(node.value, str) else None

    def number(self, key: str) -> int | None:
        node = self.get(key)
        value = node.value if node is not None else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, key: str) -> bool:
        node = self.get(key)
        return node is not None and node.value is True

    def size(self, key: str, problems: Problems) -> int | None:
        """Bytes; `auto` reads as None. A size that is none is reported."""
        node = self.get(key)
        if node is None or node.value == "auto" or not isinstance(node.value, (int, str)):
            return None
        try:
            return parse_size(node.value)
        except ValueError as error:
            problems.add(node.place, f"`{key}` is {error}", "write a size such as 8GiB")
            return None

    def seconds(self, key: str, problems: Problems) -> int | None:
        """A time. One that is none is reported."""
        node = self.get(key)
        if node is None or not isinstance(node.value, (int, str)):
            return None
        try:
            return parse_duration(node.value)
        except ValueError as error:
            problems.add(node.place, f"`{key}` is {error}", "write seconds, or a time such as 30s")
            return None

    def path(self, key: str, base: Path, problems: Problems) -> Path | None:
        """A path on this machine. `base`: the manifest's folder. In a home that nobody has: reported."""
        node = self.get(key)
        if node is None or not isinstance(node.value, str):
            return None
        try:
            return base / Path(node.path).expanduser()
        except RuntimeError:
            home = show(node.value.partition("/")[0])
            problems.add(
                self.place(key), f"this machine knows no home folder {home}", "write the path without `~`"
            )
            return None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list's texts; whole numbers as their digits."""
        node = self.get(key)
        items = node.items if node is not None and node.items is not None else ()
        return tuple(str(item.value) for item in items if not item.broken)

    def text_map(self, key: str) -> dict[str, str]:
        """A map's texts; whole numbers as their digits."""
        node = self.get(key)
        entries = node.entries if node is not None and node.entries is not None else {}
        return {name: str(value.value) for name, value in entries.items() if not value.broken}

    def secret(self, key: str) -> SecretRef | None:
        """A reference to a secret: paths as the manifest's folder sees them, a command as one line."""
        node = self.get(key)
        for kind, name in (node.entries or {}).items() if node is not None else ():
            if name.broken:
                continue
            if name.items is not None:
                return SecretRef(kind=kind, name=shlex.join(str(word.value) for word in name.items))
            in_file = kind in ("from_file", "from_age", "from_sops")
            return SecretRef(kind=kind, name=name.path if in_file else str(name.value))
        return None
