"""A JSON object in a file of somebody else's: read, changed, written back; what it was before is kept aside.

In: a connection, a path, what to make of the object. What the file holds is neither told nor put anywhere but
on the same host.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..errors import OperationFailed, StalePlan
from ..transport.base import Connection
from ..types.names import KEPT
from ..types.operation import KeepJson
from .host_file import edit_file, read_file, sha256_of

Document = dict[str, Any]

_NOTE = """\
set -eu
test -d "$folder" || exit 0
printf '%s\\n' "sha256:$sha256" >>"$folder/wrote"
"""
_SWAP = """\
set -eu
rm -rf -- "$folder"
mv -T -- "$folder.new" "$folder"
"""
_CLEAR = 'rm -rf -- "$folder"\n'


def keep_json(connection: Connection, operation: KeepJson, kept: str = KEPT) -> None:
    """Keep what the file is. Raises StalePlan when it is not what the plan saw."""
    folder = f"{kept}/{operation.kept}"
    limit = operation.deadline_s
    data = read_file(connection, operation.path, limit)
    if _under_way(connection, operation, folder, sha256_of(data)):
        return
    if sha256_of(data) != operation.expected_sha256:
        raise StalePlan(
            f"{operation.path} was changed since the plan was made", do="plan again; it was not touched"
        )
    was = document_of(data, operation.path)
    ways = {
        "restarted": json_bytes(was | operation.restarted),
        "reloaded": json_bytes(operation.reloaded | was),
    }
    files = {**ways, "token": operation.token.encode()}
    if data is not None:
        files["was"] = data
    files["wrote"] = "".join(f"sha256:{sha256_of(way)}\n" for way in ways.values()).encode()
    _run(connection, _CLEAR, limit, folder=f"{folder}.new")
    for name, content in files.items():
        connection.put(f"{folder}.new/{name}", content, mode="0600", deadline_s=limit)
    _run(connection, _SWAP, limit, folder=folder)


def edit_json(
    connection: Connection,
    path: str,
    edit: Callable[[Document], Document | None],
    *,
    kept: str,
    deadline_s: float,
) -> None:
    """Make of the object what `edit` says (None: no file); an object that stays equal is not written anew.

    `kept`: the folder that is to know what is written, before it is. Empty: none.
    """

    def change(data: bytes | None) -> bytes | None:
        found = document_of(data, path)
        wanted = edit(dict(found))
        if wanted == found:
            return data
        new = None if wanted is None else json_bytes(wanted)
        if kept:
            _run(connection, _NOTE, deadline_s, folder=kept, sha256=sha256_of(new))
        return new

    edit_file(connection, path, change, mode="0644", deadline_s=deadline_s)


def document_of(data: bytes | None, path: str) -> Document:
    """The parsed object. An absent or empty file is one without members, as it is to the engine."""
    try:
        document = json.loads(data) if data and data.strip() else {}
    except ValueError as error:
        raise OperationFailed(
            f"{path} is not valid JSON: {error}", do="repair the file; it was not touched"
        ) from None
    if not isinstance(document, dict):
        raise OperationFailed(f"{path} holds no JSON object", do="repair the file; it was not touched")
    return document


def json_bytes(document: Document) -> bytes:
    """As people write it."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def _under_way(connection: Connection, operation: KeepJson, folder: str, sha256: str) -> bool:
    """Whether this edit was begun and the file is one it wrote."""
    token = read_file(connection, f"{folder}/token", operation.deadline_s)
    if token != operation.token.encode():
        return False
    wrote = read_file(connection, f"{folder}/wrote", operation.deadline_s) or b""
    return f"sha256:{sha256}" in wrote.decode().split()


def _run(connection: Connection, script: str, deadline_s: float, **args: str) -> None:
    done = connection.run(script, args=args, deadline_s=deadline_s)
    if done.rc != 0:
        raise OperationFailed(f"keeping {args['folder']} failed: {done.stderr.strip()}")
