"""The model repositories that the lab's hub serves, read from a folder.

In: a folder `ORG/NAME/files` for each repository, `ORG/NAME/refs/REVISION` for revisions other than main,
`ORG/NAME/repo.json` for `{"gated": true}` or `{"private": true}`, and `tokens.json` (token → user name and
the gated or private repositories it may read). Out: commits, which follow from content, and files with
their hashes. What changes on disk is seen at the next request.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGE_SUFFIXES = (".gguf", ".safetensors", ".bin")


@dataclass(frozen=True)
class File:
    """One file of a commit."""

    name: str
    path: Path
    size: int
    sha256: str
    git_oid: str

    @property
    def large(self) -> bool:
        """Whether the hub keeps it in its large-file storage."""
        return self.name.endswith(LARGE_SUFFIXES)

    @property
    def etag(self) -> str:
        """What the hub tells as the file's identity."""
        return self.sha256 if self.large else self.git_oid


@dataclass(frozen=True)
class Commit:
    """What a revision points to."""

    sha: str
    files: dict[str, File]


@dataclass(frozen=True)
class User:
    """Whom a token belongs to."""

    name: str
    access: tuple[str, ...]


class Repos:
    """All repositories under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[tuple[Path, int, int], tuple[str, str]] = {}

    def users(self) -> dict[str, User]:
        """The users by token."""
        file = self.root / "tokens.json"
        entries = json.loads(file.read_text()) if file.exists() else {}
        return {token: User(user["name"], tuple(user.get("access", []))) for token, user in entries.items()}

    def settings(self, repo: str) -> dict[str, Any] | None:
        """The repository's settings; None where there is no such repository."""
        folder = self.root / repo
        if ".." in repo or not (folder / "files").is_dir():
            return None
        file = folder / "repo.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def revisions(self, repo: str) -> dict[str, Path]:
        """The folders of all named revisions."""
        refs = self.root / repo / "refs"
        named = {folder.name: folder for folder in refs.iterdir()} if refs.is_dir() else {}
        return {"main": self.root / repo / "files", **named}

    def commit(self, repo: str, revision: str) -> Commit | None:
        """The commit of a branch, a tag or a commit's own sha."""
        folders = self.revisions(repo)
        if revision in folders:
            return self._read(folders[revision])
        commits = map(self._read, folders.values())
        return next(
            (commit for commit in commits if len(revision) >= 7 and commit.sha.startswith(revision)), None
        )

    def blob(self, sha256: str) -> File | None:
        """A large file of any repository, by content."""
        repos = [folder.parent for folder in self.root.glob("*/*/files")]
        for repo in repos:
            for folder in self.revisions(str(repo.relative_to(self.root))).values():
                for file in self._read(folder).files.values():
                    if file.sha256 == sha256:
                        return file
        return None

    def _read(self, folder: Path) -> Commit:
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                stat = path.stat()
                files[name] = File(
                    name, path, stat.st_size, *self._hash(path, stat.st_size, stat.st_mtime_ns)
                )
        listing = "".join(f"{file.name} {file.sha256}\n" for file in files.values())
        return Commit(hashlib.sha1(listing.encode()).hexdigest(), files)

    def _hash(self, path: Path, size: int, mtime: int) -> tuple[str, str]:
        key = (path, size, mtime)
        if key not in self._hashes:
            sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)
            with path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    sha256.update(chunk)
                    git.update(chunk)
            self._hashes[key] = sha256.hexdigest(), git.hexdigest()
        return self._hashes[key]
