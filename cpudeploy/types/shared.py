"""What deployments share on a host and who claims it: the document `host.json`, and how claims come and go.

A key names one shared thing. Its entry keeps what was there before any of ours, so that the last owner
to leave can put it back. Pure.

A setting of a JSON file, `<file>#/<key>`, is one of them. What its owner had there may be a secret: its
`before` says only that there was something (true), the value itself stays on the host; or that it was ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .base import Struct

Value = str | bool | None


def setting_text(value: Any) -> str:
    """A setting's value as JSON, the one form in which values are compared, recorded and shown."""
    return msgspec.json.encode(value, order="sorted").decode()


def setting_key(path: str, key: str) -> str:
    """The shared key of one setting of a JSON file."""
    return f"{path}#/{key}"


class SharedKey(Struct, frozen=True, kw_only=True):
    """One shared thing. `before`: its value before any of ours (None: absent); `owners`: deployments."""

    before: Value
    ours: Value
    owners: tuple[str, ...]


class HostRecord(Struct, frozen=True, kw_only=True, tag="host_record", tag_field="kind"):
    """`host.json` of one host."""

    keys: dict[str, SharedKey] = {}

    def claimed(self, claims: Mapping[str, SharedKey]) -> HostRecord:
        """With `claims` added. What was before the first claim is never overwritten."""
        keys = dict(self.keys)
        for name, claim in claims.items():
            known = keys.get(name, claim)
            owners = tuple(sorted({*known.owners, *claim.owners}))
            keys[name] = SharedKey(before=known.before, ours=claim.ours, owners=owners)
        return HostRecord(keys=keys)

    def released(self, owner: str, names: Iterable[str]) -> HostRecord:
        """Without `owner`'s claims on `names`. A key nobody owns is forgotten."""
        keys = dict(self.keys)
        for name in names:
            if name in keys:
                left = tuple(other for other in keys[name].owners if other != owner)
                keys[name] = msgspec.structs.replace(keys[name], owners=left)
                if not left:
                    del keys[name]
        return HostRecord(keys=keys)
