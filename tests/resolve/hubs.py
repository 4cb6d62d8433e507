"""A small Hub on loopback. Repositories are plain dicts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from .web_server import Reply, Request, Server, serve

TOKEN = "hf_right"
COMMIT = "a1b2c3d4" * 5
_API = re.compile(r"/api/models/(?P<repo>.+?)/revision/(?P<revision>[^/]+)")
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass
class Repo:
    """`files` by path; GGUF and safetensors are LFS. `gated`: files need the token. `private`: all does."""

    files: dict[str, bytes]
    gated: bool = False
    private: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    main: str = COMMIT
    """The commit that the branch is at; COMMIT is there as well."""


@dataclass
class RunningHub:
    server: Server
    repos: dict[str, Repo]
    ranges: bool = True

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def tokens(self) -> set[str]:
        """Every Authorization header this Hub was ever sent."""
        return {r.headers["Authorization"] for r in self.server.requests if "Authorization" in r.headers}


@contextmanager
def run_hub(repos: dict[str, Repo], *, ranges: bool = True) -> Iterator[RunningHub]:
    """Serve `repos` until the block ends; without `ranges` every download is whole."""

    def answer(request: Request) -> Reply:
        path = urlsplit(request.path).path
        known = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        if match := _API.fullmatch(path):
            repo = repos.get(match["repo"])
            if repo is None or (repo.private and not known):
                return Reply(401, b"{}")
            revision = unquote(match["revision"])
            if revision not in ("main", COMMIT):
                return Reply(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            commit = repo.main if revision == "main" else COMMIT
            return Reply(200, json.dumps(_info(match["repo"], repo, commit)).encode())
        if match := _RESOLVE.fullmatch(path):
            repo = repos.get(match["repo"])
            if repo and (repo.private or repo.gated) and not known:
                return Reply(401, b"{}", {"X-Error-Code": "GatedRepo"})
            data = repo.files.get(unquote(match["path"])) if repo else None
            return (
                Reply(404) if data is None else _part(data, request.headers.get("Range") if ranges else None)
            )
        return Reply(404)

    with serve(answer) as server:
        yield RunningHub(server, repos, ranges)


def _info(name: str, repo: Repo, commit: str) -> dict[str, Any]:
    siblings = []
    for path, data in repo.files.items():
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        sibling: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": git}
        if path.endswith((".gguf", ".safetensors")):
            sha256 = hashlib.sha256(data).hexdigest()
            sibling["lfs"] = {"size": len(data), "sha256": sha256, "pointerSize": 134}
        siblings.append(sibling)
    gated: Any = "manual" if repo.gated else False
    return {"id": name, "sha": commit, "gated": gated, "siblings": siblings} | repo.info


def _part(data: bytes, asked: str | None) -> Reply:
    if not asked:
        return Reply(200, data)
    start, end = asked.removeprefix("bytes=").split("-")
    if int(start) >= len(data):
        return Reply(416)
    part = data[int(start) : int(end) + 1]
    return Reply(206, part, {"Content-Range": f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}"})
