"""Changes one list in a JSON file of somebody else's, and nothing else in it.

In: a connection and a `MergeJson`. What the file holds beside that list is neither told nor kept.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import OperationFailed, StalePlan
from ..transport.base import Connection
from ..types.operation import MergeJson
from .host_file import edit_file, sha256_of


def merge_json(connection: Connection, operation: MergeJson) -> None:
    """Do it; done already is done. Raises StalePlan, and OperationFailed for a file that is no such JSON."""
    edit_file(
        connection,
        operation.path,
        lambda data: merged(data, operation),
        mode="0644",
        deadline_s=operation.deadline_s,
    )


def merged(data: bytes | None, operation: MergeJson) -> bytes | None:
    """The file's content afterwards; `data` itself where there is nothing to do. None: absent."""
    document = _document(data, operation)
    before = document.get(operation.key, [])
    after = [word for word in before if word not in operation.remove]
    after += [word for word in operation.add if word not in after]
    wanted = document | {operation.key: after}
    if not after and (operation.tidy != "nothing" or operation.key not in document):
        del wanted[operation.key]
    if not wanted and operation.tidy == "file":
        return None
    if wanted == document:
        return data
    if operation.expected_sha256 is not None and sha256_of(data) != operation.expected_sha256:
        raise StalePlan(
            f"{operation.path} was changed since the plan was made", do="plan again; it was not touched"
        )
    return json.dumps(wanted, indent=2, ensure_ascii=False).encode() + b"\n"


def _document(data: bytes | None, operation: MergeJson) -> dict[str, Any]:
    """The parsed object. An empty file is one without members, as it is to the engine."""
    try:
        document = json.loads(data) if data and data.strip() else {}
    except ValueError as error:
        raise OperationFailed(
            f"{operation.path} is not valid JSON: {error}", do="repair the file; it was not touched"
        ) from None
    listed = document.get(operation.key, []) if isinstance(document, dict) else None
    if not isinstance(listed, list) or not all(isinstance(word, str) for word in listed):
        raise OperationFailed(
            f"{operation.path} has no place for a list {operation.key}",
            do="repair the file; it was not touched",
        )
    found: dict[str, Any] = document
    return found
