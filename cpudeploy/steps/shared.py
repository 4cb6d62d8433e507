"""What deployments share on a host, as steps see it: claims, and the fingerprints that speak of them.

In: facts and the names of shared things. A record that can't be understood is refused, never taken for empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import HostError
from ..types.base import Unknown
from ..types.names import HOST_RECORD
from ..types.shared import HostRecord, SharedKey, Value
from .context import HostContext, pointer


def host_record(context: HostContext) -> HostRecord:
    """The host's record. Raises HostError when it can't be understood: it may hold claims of others."""
    record = context.facts.host_record
    if isinstance(record, Unknown):
        raise HostError(
            f"{HOST_RECORD} can't be understood, and it says what other deployments share: {record.unknown}",
            where=context.facts.host,
            do="repair it, or move it away if no other deployment uses this host",
        )
    return record


def claim(context: HostContext, *, before: Value, ours: Value) -> SharedKey:
    """This deployment's claim on something that was `before` and is to be `ours`."""
    return SharedKey(before=before, ours=ours, owners=(context.deployment.name,))


def unclaimed(context: HostContext, keys: Iterable[str]) -> tuple[str, ...]:
    """Those of `keys` that this deployment has no claim on yet."""
    known = host_record(context).keys
    return tuple(key for key in keys if key not in known or context.deployment.name not in known[key].owners)


def claimed(context: HostContext, prefix: str) -> dict[str, SharedKey]:
    """Everything whose name begins with `prefix` and that this deployment claims."""
    keys = host_record(context).keys
    return {
        key: entry
        for key, entry in sorted(keys.items())
        if key.startswith(prefix) and context.deployment.name in entry.owners
    }


def owners(record: HostRecord, keys: Iterable[str]) -> dict[str, Any]:
    """Statements of a fingerprint: who owns each of `keys` in `record`; nobody is null."""
    return {
        pointer("host_record", "keys", key, "owners"): list(record.keys[key].owners)
        if key in record.keys
        else None
        for key in keys
    }
