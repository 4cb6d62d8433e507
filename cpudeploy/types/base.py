"""What all data types share: frozen structs, the unknown, and one canonical JSON form.

Nothing under `types/` imports anything else of ours: data flows down, types flow everywhere.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")


Count = Annotated[int, msgspec.Meta(ge=0)]
"""A number of things, or of bytes. Held to when a document is read."""

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]

CpuId = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
"""The number of a logical CPU: no kernel is built for as many."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every type of ours: immutable, compared by value, strict when read from JSON."""


class Unknown(Struct, frozen=True, kw_only=True, tag="unknown", tag_field="kind"):
    """A value that could not be read, and why. Never replaced by a guess.

    In JSON it carries `"kind": "unknown"`, so that it can be told from the struct it stands for.
    """

    unknown: str


class SecretRef(Struct, frozen=True, kw_only=True):
    """Where a secret comes from. Plans, events and logs carry this, never the value.

    `kind` is the manifest's key. `name` is for `from_env` a variable; for `from_file`, `from_age` and
    `from_sops` a path, resolved against the manifest's folder; for `from_command` a command line, split as
    a shell would and run by none.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        # The words behind a command may say more than anybody should see.
        shown = self.name.split(maxsplit=1)[:1] if self.kind == "from_command" else [self.name]
        return f"{self.kind}:{''.join(shown)}"


def to_data(value: Any) -> Any:
    """A type as plain JSON data (dicts, lists, strings, numbers)."""
    return msgspec.to_builtins(value)


def from_data(data: Any, kind: type[T]) -> T:
    """The inverse of `to_data`. Raises msgspec.ValidationError naming the path that is wrong."""
    return msgspec.convert(data, kind)


def to_json(value: Any) -> bytes:
    """Canonical JSON: keys sorted, no spaces; equal values give equal bytes."""
    return msgspec.json.encode(value, order="sorted")


def from_json(data: bytes | str, kind: type[T]) -> T:
    """The inverse of `to_json`."""
    return msgspec.json.decode(data, type=kind)


def digest(value: Any) -> str:
    """sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(to_json(value)).hexdigest()
