"""A ModelScope that its own SDK takes for the real one.

In: an address and a folder of repositories (see hub_repos.py; `files` is what `master` holds). Out: an HTTP
server on two ports: the API, and the storage that downloads of large files are redirected to. As with the real
one, small files come at once and whole, whatever range was asked for; a listing names a sha256 for every file
and no commit; and a download looks for the token in its cookie only.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.cookies import SimpleCookie
from http.server import ThreadingHTTPServer
from pathlib import Path

from tests.lab.hub import STORAGE, Handler, HubServer
from tests.lab.hub_answers import Refusal
from tests.lab.hub_repos import Commit, File, Repos, User

API = re.compile(r"/api/v1/models/(?P<repo>[^/]+/[^/]+)(/(?P<what>repo/files|repo|revisions))?")
MASTER = "master"


class ScopeServer(HubServer):
    """One of the two ports."""

    def __init__(self, address: tuple[str, int], storage: str, repos: Repos, log: Path) -> None:
        ThreadingHTTPServer.__init__(self, address, ScopeHandler)
        self.storage, self.repos, self.log = storage, repos, log


class ScopeHandler(Handler):
    """One connection."""

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        self.user = self._user()
        if match := STORAGE.fullmatch(path):
            file = self.server.repos.blob(match["sha256"])
            if file is None:
                raise Refusal(404)
            self._send_file(file, {})
            return
        match = API.fullmatch(path)
        if match is None:
            raise Refusal(404, message="page not found")
        repo, asked = match["repo"], {key: values[0] for key, values in query.items()}
        if match["what"] == "repo":
            self.user = self.user and self._by_cookie()
            self._download(repo, asked.get("Revision", MASTER), asked["FilePath"])
        elif match["what"] == "repo/files":
            recursive, root = asked.get("Recursive", "False").lower() == "true", asked.get("Root", "")
            files = _entries(self._at(repo, asked.get("Revision", MASTER)), root, recursive)
            self._told({"Files": files, "IsVisual": 0, "LatestCommitter": {"Id": ""}})
        elif match["what"] == "revisions":
            self._at(repo, MASTER)
            names = [MASTER if name == "main" else name for name in self.server.repos.revisions(repo)]
            branches = [{"Revision": name, "CreatedAt": 1_700_000_000} for name in names]
            self._told({"RevisionMap": {"Branches": branches, "Tags": []}})
        else:
            self._at(repo, MASTER)
            self._told({"Name": repo.split("/")[1], "Path": repo.split("/")[0], "Revision": MASTER})

    def _user(self) -> User | None:
        header = self.headers.get("Authorization")
        if header is None:
            return self._by_cookie()
        user = self.server.repos.users().get(header.removeprefix("Bearer "))
        if user is None:
            raise Refusal(401, message="token is invalid")
        return user

    def _by_cookie(self) -> User | None:
        morsel = SimpleCookie(self.headers.get("Cookie", "")).get("m_session_id")
        return self.server.repos.users().get(morsel.value) if morsel else None

    def _at(self, repo: str, revision: str) -> Commit:
        """A revision, if this user may see it; who may not is told as little as of one that is not there."""
        settings = self.server.repos.settings(repo)
        allowed = self.user is not None and repo in self.user.access
        hidden = settings is None or (settings.get("private") and not allowed)
        named = "main" if revision == MASTER else revision
        commit = None if hidden else self.server.repos.commit(repo, named)
        if commit is None:
            raise Refusal(404, message="record not found")
        return commit

    def _download(self, repo: str, revision: str, name: str) -> None:
        file = self._at(repo, revision).files.get(name)
        if file is None:
            raise Refusal(404, message="file not found")
        if file.large:
            location = f"{self.server.storage}/storage/{file.sha256}?Signature=of-this-one-time"
            self._bytes(b"", HTTPStatus.FOUND, {"Location": location})
        else:
            self._bytes(file.path.read_bytes(), HTTPStatus.OK, {})

    def _told(self, data: object) -> None:
        answer = {"Code": 200, "Success": True, "Message": "success", "RequestId": str(uuid.uuid4())}
        self._json({**answer, "Data": data})

    def _login(self) -> str | None:
        return self.headers.get("Authorization") or self.headers.get("Cookie")


def _entries(commit: Commit, root: str, recursive: bool) -> list[dict[str, object]]:
    prefix = f"{root.strip('/')}/" if root.strip("/") else ""
    inside = [file for name, file in commit.files.items() if name.startswith(prefix)]
    if prefix and not inside:
        raise Refusal(404, message="path not found")
    folders: dict[str, None] = {}
    for file in inside:
        parts = file.name[len(prefix) :].split("/")[:-1]
        for depth in range(1, len(parts) + 1 if recursive else min(2, len(parts) + 1)):
            folders[prefix + "/".join(parts[:depth])] = None
    shown = [file for file in inside if recursive or "/" not in file.name[len(prefix) :]]
    return [
        *({"Name": name.split("/")[-1], "Path": name, "Type": "tree", "Size": 0} for name in folders),
        *map(_entry, shown),
    ]


def _entry(file: File) -> dict[str, object]:
    return {
        "CommittedDate": 1_700_000_000,
        "IsLFS": file.large,
        "Mode": "33188",
        "Name": file.name.split("/")[-1],
        "Path": file.name,
        "Revision": file.git_oid,
        "Sha256": file.sha256,
        "Size": file.size,
        "Type": "blob",
    }


@contextmanager
def serve_modelscope(root: Path, log: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """Serve the repositories below `root` until the block ends; gives the API's address."""
    repos = Repos(root)
    storage = ScopeServer((address, 0), "", repos, log)
    api = ScopeServer((address, 0), f"http://{address}:{storage.server_address[1]}", repos, log)
    for server in (storage, api):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://{address}:{api.server_address[1]}"
    finally:
        for server in (storage, api):
            server.shutdown()
            server.server_close()
