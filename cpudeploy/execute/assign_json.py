"""Sets members of a JSON file of somebody else's, knows whose they are, and puts back what was there before.

In: a connection and an `AssignJson`. What was there before may be a secret of the owner's: it is kept beside
`host.json`, in a file that no facts tell of. Written down before anything is changed, so that a death in
between loses nothing.
"""

from __future__ import annotations

from typing import Any

from ..errors import OperationFailed
from ..transport.base import Connection
from ..types.base import to_json
from ..types.names import BEFORE, HOST_RECORD, KEPT
from ..types.operation import AssignJson
from ..types.shared import HostRecord, SharedKey, Value, setting_key, setting_text
from .host_file import edit_file, read_file
from .host_record import record_of
from .json_file import Document, document_of, edit_json, json_bytes

State = tuple[HostRecord, dict[str, Any]]
"""Who claims what, and what was before by shared key."""


def assign_json(
    connection: Connection,
    operation: AssignJson,
    *,
    record_path: str = HOST_RECORD,
    before_path: str = BEFORE,
    kept: str = KEPT,
) -> None:
    """Do it; done already is done. Raises OperationFailed where another deployment wants another value."""
    limit = operation.deadline_s
    record = record_of(read_file(connection, record_path, limit), record_path)
    before = document_of(read_file(connection, before_path, limit), before_path)
    file = document_of(read_file(connection, operation.path, limit), operation.path)
    state = claimed(operation, (record, before), file)

    def write(state: State) -> None:
        _write(connection, before_path, json_bytes(state[1]) if state[1] else None, limit)
        _write(connection, record_path, to_json(state[0]) + b"\n" if state[0].keys else None, limit)

    if state != (record, before):
        write(state)
    edit_json(
        connection,
        operation.path,
        lambda document: assigned(operation, state, document),
        kept=f"{kept}/{operation.kept}" if operation.kept else "",
        deadline_s=limit,
    )
    if not operation.meanwhile and (left := released(operation, state)) != state:
        write(left)


def claimed(operation: AssignJson, state: State, file: Document) -> State:
    """With the values claimed; what is in `file` is what was before the first claim."""
    record, before = state
    claims, known = {}, dict(before)
    for key, value in operation.values.items():
        name = setting_key(operation.path, key)
        ours = setting_text(value)
        entry = record.keys.get(name)
        if entry is None:
            known.pop(name, None)
            if key in file:
                known[name] = file[key]
        elif entry.ours != ours and set(entry.owners) != {operation.deployment}:
            others = ", ".join(owner for owner in entry.owners if owner != operation.deployment)
            raise OperationFailed(f"{key} in {operation.path} is {entry.ours} for {others}", do="plan again")
        was = entry.before if entry is not None else _told(file, key, ours)
        claims[name] = SharedKey(before=was, ours=ours, owners=(operation.deployment,))
    return record.claimed(claims), known


def assigned(operation: AssignJson, state: State, document: Document) -> Document:
    """The object with the values set, and with what was before where nobody needs ours any more."""
    record, before = state
    wanted = document | operation.values
    for key in operation.release:
        name = setting_key(operation.path, key)
        entry = record.keys.get(name)
        if entry is None or entry.owners != (operation.deployment,) or key not in document:
            continue
        found = setting_text(document[key])
        neutral = key in operation.neutral and entry.before is None
        if found != entry.ours and not (neutral and found == setting_text(operation.neutral[key])):
            continue  # somebody else's since: theirs to say
        if name in before:
            wanted[key] = before[name]
        elif neutral and operation.meanwhile:
            wanted[key] = operation.neutral[key]
        else:
            del wanted[key]
    return wanted


def released(operation: AssignJson, state: State) -> State:
    """Without the claims given up, and without what was before where nobody is left."""
    record, before = state
    names = [setting_key(operation.path, key) for key in operation.release]
    left = record.released(operation.deployment, names)
    known = {name: value for name, value in before.items() if name not in names or name in left.keys}
    return left, known


def _told(file: Document, key: str, ours: str) -> Value:
    """What the record may say of what was before: nothing there, the same as ours, or something."""
    if key not in file:
        return None
    return ours if setting_text(file[key]) == ours else True


def _write(connection: Connection, path: str, content: bytes | None, deadline_s: float) -> None:
    edit_file(connection, path, lambda _: content, mode="0600", deadline_s=deadline_s)
