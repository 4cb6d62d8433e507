"""A small web server on loopback that answers as a test says and remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    """Header names are in title case: `Authorization`."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """`requests` in the order they came; `sent` counts body bytes that clients took."""

    address: str
    url: str
    requests: list[Request] = field(default_factory=list)
    sent: int = 0


@contextmanager
def serve(answer: Callable[[Request], Reply], tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Answer every request by `answer` until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            request = Request(
                self.command, self.path, {name.title(): value for name, value in self.headers.items()}
            )
            server.requests.append(request)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = answer(request)
            self.send_response(reply.status)
            for name, value in ({"Content-Length": str(len(reply.body))} | reply.headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            for start in range(0, len(reply.body), 65536):
                try:
                    self.wfile.write(reply.body[start : start + 65536])
                except OSError:
                    return
                server.sent += len(reply.body[start : start + 65536])

        do_GET = do_HEAD = do_POST = _any

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    address = f"127.0.0.1:{http.server_port}"
    server = Server(address, f"{'https' if tls else 'http'}://{address}")
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
