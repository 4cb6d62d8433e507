"""A small file on a host that others write too: read, changed here, written back only if nobody came between.

In: a connection, a path, what to make of the content. Symlinks are followed, mode and owner are kept.
Must never lose what somebody else wrote meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ..errors import OperationFailed
from ..transport.base import Connection
from ..transport.scripts import SEE_DISK

_ABSENT, _CHANGED = 3, 4
_TRIES = 5

_READ = """\
file=$(readlink -f -- "$path") || exit 3 # nor is its folder
test -e "$file" || exit 3
exec cat -- "$file"
"""
# `was` and what the file is now: a sha256, empty for an absent one. A copy made with `-a` has mode, owner
# and security label of the file it will stand for.
_BEGIN = """\
set -eu
file=$(readlink -f -- "$path") || file=$path
now=
if test -e "$file"; then now=$(sha256sum <"$file"); now=${now%% *}; fi
test "$now" = "$was" || exit 4
"""
_WRITE = (
    _BEGIN
    + """\
test -d "${file%/*}" || (umask "$closed"; mkdir -p -- "${file%/*}")
new="$file.cpudeploy.$$"
trap 'rm -f -- "$new"' EXIT
trap 'exit 1' TERM INT HUP
if test -n "$was"; then cp -a -- "$file" "$new"; else : >"$new"; chmod "$mode" "$new"; fi
cat >"$new"
test "$(wc -c <"$new")" -eq "$size" || { echo 'not all bytes arrived' >&2; exit 1; }
sync -- "$new" # a power cut must not leave its owner an empty file
mv -f -- "$new" "$file"
"""
)
_REMOVE = _BEGIN + 'rm -f -- "$file"\n'

Edit = Callable[[bytes | None], bytes | None]
"""A file's content → what it shall be; None: absent."""


def edit_file(connection: Connection, path: str, edit: Edit, *, mode: str, deadline_s: float) -> None:
    """Make of a file what `edit` says; `mode` is for a file that was absent.

    `edit` may be called again, when somebody else wrote in between, and may raise.
    """
    for _ in range(_TRIES):
        old = read_file(connection, path, deadline_s)
        new = edit(old)
        if new == old or _replaced(connection, path, old, new, mode, deadline_s):
            return
    raise OperationFailed(f"{path} keeps being changed by somebody else", do="find out by whom, then retry")


def sha256_of(data: bytes | None) -> str:
    """Hexadecimal; empty for an absent file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def read_file(connection: Connection, path: str, deadline_s: float) -> bytes | None:
    """The content of a file, as root; None: absent. Raises OperationFailed when it can't be read."""
    done = connection.run(_READ, args={"path": path}, deadline_s=deadline_s)
    if done.rc == _ABSENT:
        return None
    if done.rc != 0:
        raise OperationFailed(f"reading {path} failed: {done.stderr.strip()}")
    return done.stdout


def _replaced(
    connection: Connection, path: str, old: bytes | None, new: bytes | None, mode: str, deadline_s: float
) -> bool:
    args = {"path": path, "was": sha256_of(old)}
    if new is None:
        done = connection.run(_REMOVE, args=args, deadline_s=deadline_s)
    else:
        # Nobody else looks into the folder of a file that only root may read.
        args |= {"mode": mode, "size": str(len(new)), "closed": "077" if mode.endswith("00") else "022"}
        done = connection.run(_WRITE, args=args, stdin=new, deadline_s=deadline_s)
    if done.rc not in (0, _CHANGED):
        raise OperationFailed(f"writing {path} failed: {done.stderr.strip()}", do=SEE_DISK)
    return done.rc == 0
