"""What the hub's API says about a repository, in the words of the real one.

In: a commit. Out: the JSON documents that the client library reads, or a refusal.
"""

from __future__ import annotations

from tests.lab.hub_repos import Commit, File


class Refusal(Exception):
    """An answer that isn't the thing asked for."""

    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def entry(file: File) -> dict[str, object]:
    """One file, as the tree and paths-info tell it."""
    entry: dict[str, object] = {"type": "file", "oid": file.git_oid, "size": file.size, "path": file.name}
    if file.large:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": 135}
    return entry


def tree(commit: Commit, folder: str, recursive: bool) -> list[dict[str, object]]:
    """A folder of a commit."""
    prefix = f"{folder}/" if folder else ""
    inside = [file for name, file in commit.files.items() if name.startswith(prefix)]
    if folder and not inside:
        raise Refusal(404, "EntryNotFound", f"{folder} does not exist on this revision")
    flat = [file for file in inside if recursive or "/" not in file.name[len(prefix) :]]
    folders = {prefix + file.name[len(prefix) :].split("/")[0] for file in inside if file not in flat}
    directories = [
        {"type": "directory", "oid": "0" * 40, "size": 0, "path": name} for name in sorted(folders)
    ]
    return [*directories, *map(entry, flat)]


def info(repo: str, commit: Commit, settings: dict[str, object], blobs: bool) -> dict[str, object]:
    """A repository at a commit; with `blobs`, sizes and hashes too."""
    siblings = []
    for file in commit.files.values():
        sibling: dict[str, object] = {"rfilename": file.name}
        if blobs:
            sibling |= {"blobId": file.git_oid, "size": file.size}
            if file.large:
                sibling["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": 135}
        siblings.append(sibling)
    gated = "manual" if settings.get("gated") else False
    return {
        "_id": commit.sha[:24],
        "id": repo,
        "modelId": repo,
        "author": repo.split("/")[0],
        "sha": commit.sha,
        "lastModified": "2025-01-01T00:00:00.000Z",
        "createdAt": "2025-01-01T00:00:00.000Z",
        "private": bool(settings.get("private")),
        "gated": gated,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": ["gguf"],
        "pipeline_tag": "text-generation",
        "siblings": siblings,
    }
