"""Writes what an apply is about to leave on a host: the release file and the trees it refers to.

Secrets become marks (salted scrypt) here, their values go nowhere. Writing the same twice is the same.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from ..secrets import Secrets, mark, same
from ..transport.base import Connection
from ..types.base import from_json, to_json
from ..types.names import STATE_DIR
from ..types.operation import Record
from ..types.release import Release
from .deadline import Due

_READ = 'cat "$path" 2>/dev/null || true'


def write_record(connection: Connection, operation: Record, secrets: Secrets, due: Due) -> None:
    """Write the release, or add to the one of this apply, then its refs."""
    path = f"{STATE_DIR}/{operation.deployment}/releases/{operation.release}.json"
    known = _known(connection, path, due)
    instances = {**(known.instances if known else {}), **operation.instances}
    old_marks = known.secret_marks if known else {}
    marks = {}
    for instance in instances.values():
        for file in instance.container.secrets:
            value, old = secrets.get(file.secret).reveal(), old_marks.get(file.path, "")
            marks[file.path] = old if same(value, old) else mark(value)
    release = Release(
        id=operation.release,
        deployment=operation.deployment,
        host=operation.host,
        origin=operation.origin,
        created=known.created if known else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        instances=instances,
        secret_marks=marks,
    )
    connection.put(path, to_json(release) + b"\n", mode="0600", deadline_s=due.wait_s())
    trees = sorted({instance.tree for instance in instances.values() if instance.tree})
    if trees:
        refs = f"{operation.weights_dir}/refs/{operation.deployment}.{operation.release}"
        text = "".join(f"{tree}\n" for tree in trees)
        connection.put(refs, text.encode(), mode="0644", deadline_s=due.wait_s())


def _known(connection: Connection, path: str, due: Due) -> Release | None:
    """The release of this apply as an earlier operation left it, if it did."""
    text = connection.run(_READ, args={"path": path}, deadline_s=due.wait_s()).stdout
    try:
        return from_json(text, Release)
    except msgspec.DecodeError:
        return None  # none yet, or cut short by a crash: written anew either way
