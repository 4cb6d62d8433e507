"""A manifest out of several files. In: the path of one. Out: one tree, every value still with its place.

What a file includes comes before its own: maps merge, everything else is replaced. Each file is checked by
itself, so that what is wrong is told also where something else wins over it; what must be there is looked for
in all of them together. Reads the files that are named.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from pathlib import Path

from .document import Node, read_document, read_included
from .merge import merge_documents
from .problems import Problems, show
from .settings import Settings
from .shape import check_shape

_MAX_FILES = 100
_OWN_KEYS = frozenset({"version", "name", "include"})
"""What every file says of itself alone."""


def read_manifest(path: Path, problems: Problems) -> Node:
    """The manifest in a file with everything it includes below it. Raises ManifestError when it is no map."""
    root = check_shape(read_document(path, problems), "inventory", problems, "wrong")
    if root.entries is None:
        problems.raise_if_any()
    whole = _Reader(problems).with_included(root, (_File(path, ""),))
    return check_shape(whole, "inventory", problems, "missing")


@dataclass(frozen=True)
class _File:
    """A file, and its folder as the manifest's own folder sees it."""

    path: Path
    folder: str

    @property
    def identity(self) -> tuple[int, int] | None:
        """The same whatever a file is called; None when there is none."""
        try:
            status = self.path.stat()
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino


class _Reader:
    """Follows what files include, depth first. Counts, as a tree of files may be far wider than deep."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._count = 0

    def with_included(self, root: Node, chain: tuple[_File, ...]) -> Node:
        """A file's own tree over those it includes. `chain`: the manifest, …, the file itself."""
        included = Settings(root).get("include")
        named = [node for node in (included.items or ()) if not node.broken] if included is not None else []
        below = [tree for node in named if (tree := self._read(node, chain)) is not None]
        return merge_documents((*below, root))

    def _read(self, named: Node, chain: tuple[_File, ...]) -> Node | None:
        file = self._file(named, chain[-1])
        if file is None or not self._may_read(file, named, chain):
            return None
        root = read_included(file.path, file.folder, named, self._problems)
        if root is None:
            return None
        root = check_shape(root, "inventory", self._problems, "wrong")
        if root.entries is None:
            return None
        whole = self.with_included(root, (*chain, file))
        others = {key: value for key, value in (whole.entries or {}).items() if key not in _OWN_KEYS}
        return replace(whole, entries=others)

    def _may_read(self, file: _File, named: Node, chain: tuple[_File, ...]) -> bool:
        identity = file.identity
        if identity is not None and any(other.identity == identity for other in chain):
            way = " → ".join(show(other.path.name) for other in (*chain, file)[-4:])
            self._problems.add(
                named.place,
                f"{show(named.value)} comes back to a file that includes it: {way}",
                "leave one out",
            )
            return False
        self._count += 1
        if self._count == _MAX_FILES + 1:
            self._problems.add(
                named.place,
                f"more than {_MAX_FILES} files, those included several times counted each time",
                "include fewer",
            )
        return self._count <= _MAX_FILES

    def _file(self, named: Node, by: _File) -> _File | None:
        text = str(named.value)
        try:
            path = Path(text).expanduser()
        except RuntimeError:
            home = show(text.partition("/")[0])
            self._problems.add(
                named.place, f"this machine knows no home folder {home}", "write the path without `~`"
            )
            return None
        folder = path.parent if path.parent != Path() else ""
        return _File(by.path.parent / path, posixpath.join(by.folder, str(folder)))
