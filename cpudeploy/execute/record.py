"""What an apply leaves on a host for the next one: releases, what of them is proven, the trees they refer to.

Secrets become marks (salted scrypt) here, their values go nowhere. Doing the same twice is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..secrets import Secrets
from ..transport.base import Connection
from ..types.base import to_json
from ..types.names import STATE_DIR
from ..types.operation import Prove, Record
from ..types.release import Instance, Release, SecretFile, read_release
from ..who import who
from .deadline import Due
from .hold import lift
from .marks import secret_marks

_READ = """date -u +%Y-%m-%dT%H:%M:%SZ
cat "$path" 2>/dev/null || true
"""


def write_record(connection: Connection, operation: Record, secrets: Secrets, due: Due) -> None:
    """Write the release, or add to the one of this apply, then its refs."""
    path = _path(operation.deployment, operation.release)
    now, known = _read(connection, path, due)
    instances = {**(known.instances if known else {}), **operation.instances}
    release = Release(
        id=operation.release,
        deployment=operation.deployment,
        host=operation.host,
        origin=operation.origin,
        created=known.created if known else now,
        instances=instances,
        secret_marks=secret_marks(_files(instances), secrets, known.secret_marks if known else {}),
        by=operation.by or (known.by if known else "") or who(),
        proven=tuple(sorted({*(known.proven if known else ()), *operation.proven})),
    )
    _write(connection, path, release, due)
    trees = sorted({instance.tree for instance in instances.values() if instance.tree})
    if trees:
        refs = f"{operation.weights_dir}/refs/{operation.deployment}.{operation.release}"
        text = "".join(f"{tree}\n" for tree in trees)
        connection.put(refs, text.encode(), mode="0644", deadline_s=due.wait_s())


def prove(connection: Connection, operation: Prove, due: Due) -> None:
    """Note that a container of a release passed its gate, and lift the hold on it. A release whose file is
    lost has nothing to be noted in: the next plan restores it."""
    path = _path(operation.deployment, operation.release)
    _, known = _read(connection, path, due)
    if known is not None and operation.container not in known.proven:
        proven = tuple(sorted({*known.proven, operation.container}))
        _write(connection, path, msgspec.structs.replace(known, proven=proven), due)
    lift(connection, operation, known.instances.get(operation.container) if known else None, due)


def _files(instances: Mapping[str, Instance]) -> Iterable[SecretFile]:
    return (file for instance in instances.values() for file in instance.container.secrets)


def _path(deployment: str, release: str) -> str:
    return f"{STATE_DIR}/{deployment}/releases/{release}.json"


def _read(connection: Connection, path: str, due: Due) -> tuple[str, Release | None]:
    """The host's time, and the release as an earlier operation left it, if it did. One that was cut short
    by a crash is none."""
    answer = connection.run(_READ, args={"path": path}, deadline_s=due.wait_s()).stdout
    now, _, text = answer.partition(b"\n")
    try:
        return now.decode(), read_release(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return now.decode(), None


def _write(connection: Connection, path: str, release: Release, due: Due) -> None:
    connection.put(path, to_json(release) + b"\n", mode="0600", deadline_s=due.wait_s())
