"""Changes one list in a JSON file of somebody else's, and nothing else in it.

In: a connection and a `MergeJson`. What the file holds beside that list is neither told nor kept.
"""

from __future__ import annotations

from ..errors import OperationFailed
from ..transport.base import Connection
from ..types.names import KEPT
from ..types.operation import MergeJson
from .json_file import Document, edit_json


def merge_json(connection: Connection, operation: MergeJson, kept: str = KEPT) -> None:
    """Do it; done already is done. Raises OperationFailed for a file that has no place for such a list."""
    edit_json(
        connection,
        operation.path,
        lambda document: merged(document, operation),
        kept=f"{kept}/{operation.kept}" if operation.kept else "",
        deadline_s=operation.deadline_s,
    )


def merged(document: Document, operation: MergeJson) -> Document | None:
    """The object afterwards; None: the file goes."""
    before = document.get(operation.key, [])
    if not isinstance(before, list) or not all(isinstance(word, str) for word in before):
        raise OperationFailed(
            f"{operation.path} has no place for a list {operation.key}",
            do="repair the file; it was not touched",
        )
    after = [word for word in before if word not in operation.remove]
    after += [word for word in operation.add if word not in after]
    wanted = document | {operation.key: after}
    if not after and (operation.tidy != "nothing" or operation.key not in document):
        del wanted[operation.key]
    return None if not wanted and operation.tidy == "file" else wanted
