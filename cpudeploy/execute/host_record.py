"""Claims on what deployments share, into and out of a host's `host.json`.

In: a connection and a `Claim` or `Disclaim`. Must never lose the claim of another deployment: a record that
can't be understood is left alone.
"""

from __future__ import annotations

import msgspec

from ..errors import OperationFailed
from ..transport.base import Connection
from ..types.base import from_json, to_json
from ..types.names import HOST_RECORD
from ..types.operation import Claim, Disclaim
from ..types.shared import HostRecord
from .host_file import edit_file


def keep_claims(connection: Connection, operation: Claim | Disclaim, path: str = HOST_RECORD) -> None:
    """Write the claims down, or take them out. Raises OperationFailed for a record that can't be read."""

    def edit(data: bytes | None) -> bytes | None:
        known = record_of(data, path)
        if isinstance(operation, Claim):
            wanted = known.claimed(operation.keys)
        else:
            wanted = known.released(operation.deployment, operation.keys)
        if not wanted.keys:
            return None
        return data if wanted == known else to_json(wanted) + b"\n"

    edit_file(connection, path, edit, mode="0600", deadline_s=operation.deadline_s)


def record_of(data: bytes | None, path: str) -> HostRecord:
    """The record in a file's content. Raises OperationFailed where it is none."""
    if data is None:
        return HostRecord()
    try:
        return from_json(data, HostRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OperationFailed(
            f"{path} is not a host record: {error}",
            do="repair it, or move it away if nothing else uses this host; it was not touched",
        ) from None
