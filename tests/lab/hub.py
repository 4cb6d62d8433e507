"""A model hub that the real client library takes for the real one.

In: an address, a folder of repositories (see hub_repos.py) and a log file. Out: an HTTP server on two ports:
the hub with its API, and the storage that it redirects downloads of large files to, as the real one does.
Faults are set by PUT /lab/faults. Every request is logged as one JSON line, never with its token.
Run as `python -m tests.lab.hub ADDRESS PORT ROOT LOG`.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.lab.hub_answers import Refusal, entry, info, tree
from tests.lab.hub_repos import Commit, File, Repos, User

API = re.compile(
    r"/api/models/(?P<repo>[^/]+/[^/]+)(/(?P<what>revision|tree|paths-info|refs)(/(?P<rest>.*))?)?"
)
RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")
STORAGE = re.compile(r"/storage/(?P<sha256>[0-9a-f]{64})")
CHUNK = 64 * 1024


@dataclass(frozen=True)
class Faults:
    """What goes wrong, for requests whose path, or file's name, contains `match`."""

    match: str = ""
    times: int | None = None  # how many requests the next three hit; None: all
    status: int | None = None  # answer with this status instead, whatever is asked for
    cut_after: int | None = None  # close the connection after this many bytes of the body
    corrupt: bool = False  # one wrong byte in the body
    rate: float | None = None  # bytes per second and connection; not counted by `times`


class HubServer(ThreadingHTTPServer):
    """One of the two ports."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], storage: str, repos: Repos, log: Path) -> None:
        super().__init__(address, Handler)
        self.storage, self.repos, self.log = storage, repos, log


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: HubServer
    protocol_version = "HTTP/1.1"
    faults = Faults()  # of the class: one set for the process
    lock = threading.Lock()

    def do_GET(self) -> None:
        """Answer GET, HEAD and POST."""
        self.status, self.sent, self.logged = 0, 0, False
        self.user: User | None = None
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        url = urlsplit(self.path)
        try:
            self._answer(url.path, parse_qs(url.query), body)
        except Refusal as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message}
            self._json({"error": refusal.message}, refusal.status, {k: v for k, v in headers.items() if v})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self._log()

    do_HEAD = do_POST = do_GET

    def do_PUT(self) -> None:
        """Set the faults; what isn't given is none."""
        self.status, self.sent, self.logged = 0, 0, True
        Handler.faults = Faults(**json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._json(asdict(Handler.faults))

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if Handler.faults.status is not None and (status := self._faults_for(self.path).status):
            raise Refusal(status, message="fault asked for")
        self.user = self._user()
        if match := STORAGE.fullmatch(path):
            file = self.server.repos.blob(match["sha256"])
            if file is None:
                raise Refusal(404)
            self._send_file(file, {})
        elif path == "/api/whoami-v2":
            if self.user is None:
                raise Refusal(401, message="Invalid username or password.")
            self._json({"type": "user", "name": self.user.name, "fullname": self.user.name, "orgs": []})
        elif match := API.fullmatch(path):
            self._api(match["repo"], match["what"], match["rest"] or "", query, body)
        elif match := RESOLVE.fullmatch(path):
            self._resolve(match["repo"], unquote(match["revision"]), unquote(match["name"]))
        else:
            raise Refusal(404, message="Sorry, we can't find the page you are looking for.")

    def _user(self) -> User | None:
        header = self.headers.get("Authorization")
        if header is None:
            return None
        user = self.server.repos.users().get(header.removeprefix("Bearer "))
        if user is None:
            raise Refusal(401, message="Invalid credentials in Authorization header")
        return user

    def _commit(self, repo: str, revision: str, *, content: bool) -> Commit:
        """The commit, if this user may see it; a gated repository shows all but the content of files."""
        settings = self.server.repos.settings(repo)
        allowed = self.user is not None and repo in self.user.access
        if settings is None or (settings.get("private") and not allowed):
            # the real hub does not tell the unknown whether a repository exists; its 401 has no code, and
            # the client understands that over https only
            if self.user is None:
                raise Refusal(401, "RepoNotFound", "Invalid username or password.")
            raise Refusal(404, "RepoNotFound", "Repository not found")
        if content and settings.get("gated") and not allowed:
            status = 401 if self.user is None else 403
            raise Refusal(status, "GatedRepo", f"Access to model {repo} is restricted.")
        commit = self.server.repos.commit(repo, revision)
        if commit is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _api(self, repo: str, what: str | None, rest: str, query: dict[str, list[str]], body: bytes) -> None:
        revision, _, folder = rest.partition("/")
        commit = self._commit(repo, unquote(revision) or "main", content=False)
        if what == "refs":
            names = self.server.repos.revisions(repo)
            shas = {name: self._commit(repo, name, content=False).sha for name in names}
            branches = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": sha} for n, sha in shas.items()]
            self._json({"branches": branches, "converts": [], "tags": []})
        elif what == "tree":
            self._json(tree(commit, unquote(folder), query.get("recursive", [""])[0].lower() == "true"))
        elif what == "paths-info":
            wanted = json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode())["paths"]
            self._json([entry(commit.files[name]) for name in wanted if name in commit.files])
        else:
            blobs = query.get("blobs", [""])[0].lower() in ("true", "1")
            settings = self.server.repos.settings(repo) or {}
            self._json(info(repo, commit, settings, blobs))

    def _resolve(self, repo: str, revision: str, name: str) -> None:
        commit = self._commit(repo, revision, content=True)
        file = commit.files.get(name)
        if file is None:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit.sha, "ETag": f'"{file.etag}"'}
        if not file.large:
            self._send_file(file, headers)
            return
        headers |= {"X-Linked-Size": str(file.size), "X-Linked-ETag": f'"{file.etag}"'}
        headers["Location"] = f"{self.server.storage}/storage/{file.sha256}"
        self._bytes(b"", HTTPStatus.FOUND, headers)

    def _send_file(self, file: File, headers: dict[str, str]) -> None:
        etag = f'"{file.etag}"'
        headers = {**headers, "ETag": etag, "Accept-Ranges": "bytes"}
        start, end = 0, file.size
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        status = HTTPStatus.OK
        if asked and any(asked.groups()) and self.headers.get("If-Range", etag) == etag:
            first, last = asked.groups()
            start = int(first) if first else max(0, file.size - int(last))
            end = min(int(last) + 1, file.size) if first and last else file.size
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
            if start >= end:
                headers["Content-Range"] = f"bytes */{file.size}"
                self._bytes(b"", HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
                return
        faults = self._faults_for(f"{self.path} {file.name}") if self.command == "GET" else Faults()
        self.status = int(status)
        if self.command == "HEAD":
            self._log()
        self._head(status, {**headers, "Content-Length": str(end - start)})
        if self.command == "GET":
            self._stream(file.path, start, end, faults)

    def _faults_for(self, path: str) -> Faults:
        with Handler.lock:
            faults = Handler.faults
            if faults.match not in path:
                return Faults()
            if faults.times is None or not (faults.status or faults.cut_after is not None or faults.corrupt):
                return faults
            if faults.times <= 0:
                return Faults(rate=faults.rate)
            Handler.faults = replace(faults, times=faults.times - 1)
            return faults

    def _stream(self, path: Path, start: int, end: int, faults: Faults) -> None:
        stop = end if faults.cut_after is None else min(end, start + faults.cut_after)
        began = time.monotonic()
        size = CHUNK if faults.rate is None else max(1, min(CHUNK, int(faults.rate / 10)))
        with path.open("rb") as source:
            source.seek(start)
            while (left := stop - start - self.sent) > 0:
                chunk = source.read(min(size, left))
                if faults.corrupt and self.sent == 0:
                    chunk = bytes([chunk[0] ^ 0xFF]) + chunk[1:]
                self.sent += len(chunk)
                if self.sent == stop - start:
                    self._log()
                self.wfile.write(chunk)
                if faults.rate is not None:
                    time.sleep(max(0.0, began + self.sent / faults.rate - time.monotonic()))
        if stop < end:
            self.close_connection = True

    def _json(self, data: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._bytes(
            json.dumps(data).encode(), status, {"Content-Type": "application/json", **(headers or {})}
        )

    def _bytes(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.status = int(status)
        self._log()
        self._head(status, {**headers, "Content-Length": str(len(data))})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _log(self) -> None:
        """Once a request, before its last byte leaves: who has the answer can count on the line."""
        if self.logged:
            return
        self.logged = True
        header = self._login()
        entry = {
            "time": round(time.time(), 3),
            "port": self.server.server_address[1],
            "client": self.client_address[0],
            "method": self.command,
            "path": self.path,
            "status": self.status,
            "sent": self.sent,
            "range": self.headers.get("Range"),
            "user_agent": self.headers.get("User-Agent"),
            "token": None if header is None else self.user.name if self.user else "unknown",
        }
        with Handler.lock, self.server.log.open("a") as log:
            log.write(json.dumps(entry) + "\n")

    def _login(self) -> str | None:
        """What the request carried as its login."""
        return self.headers.get("Authorization")

    def log_message(self, format: str, *args: object) -> None:
        """Keep standard error for real errors."""


def main(address: str, port: str, root: str, log: str) -> None:
    """Serve until ended."""
    repos = Repos(Path(root))
    storage = f"http://{address}:{int(port) + 1}"
    servers = [HubServer((address, int(port) + offset), storage, repos, Path(log)) for offset in (0, 1)]
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    servers[0].serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
