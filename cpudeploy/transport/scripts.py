"""The scripts that a connection itself runs: a small file put in place, a way to the engine's API."""

from __future__ import annotations

from ..errors import OperationFailed
from .base import Connection

# Written beside the target, so that the move is atomic; the size is checked before anything is replaced.
# On the disk before it is moved: a power cut must not leave the name with an empty file.
PUT = """\
set -eu
mkdir -p "$(dirname "$path")"
new="$path.cpudeploy.$$"
trap 'rm -f "$new"' EXIT
trap 'exit 1' TERM INT HUP
cat >"$new"
test "$(wc -c <"$new")" -eq "$size" || { echo 'not all bytes arrived' >&2; exit 1; }
chown "$owner" "$new"
chmod "$mode" "$new"
sync "$new"
mv -f "$new" "$path"
"""
ENGINE = """\
command -v docker >/dev/null || { echo 'docker is not installed' >&2; exit 127; }
unset DOCKER_HOST DOCKER_CONTEXT
exec docker system dial-stdio
"""

SEE_DISK = "see whether the disk there is full or read-only, then apply again"
"""What to do where a file could not be written."""


def put_file(
    connection: Connection, path: str, data: bytes, *, mode: str, owner: str, deadline_s: float
) -> None:
    """What `Connection.put` promises, done by `Connection.run`."""
    args = {"path": path, "mode": mode, "owner": owner, "size": str(len(data))}
    done = connection.run(PUT, args=args, stdin=data, deadline_s=deadline_s)
    if done.rc != 0:
        raise OperationFailed(
            f"writing {path} failed: {done.stderr.strip()}", where=connection.host.name, do=SEE_DISK
        )
