"""A small HTTP server for downloads, with the faults real ones have."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """`content` at every path. Faults are switched on by setting fields; requests are kept."""

    content: bytes
    address: str = "127.0.0.1"
    port: int = 0
    cut_after: int | None = None
    """Close after so many bytes of the body, once per entry of `cuts`."""
    cuts: int = 0
    stall: threading.Event | None = None
    """Send half, then wait for this."""
    ranges: bool = True
    length: bool = True
    """Say how long the body is; else it ends with the connection."""
    status: int = 200
    redirect: str = ""
    requests: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}/model.gguf"


@contextmanager
def serving(content: bytes, address: str = "127.0.0.1") -> Iterator[FileServer]:
    """Run one until the end of the block."""
    server = FileServer(content, address=address)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append({name.lower(): value for name, value in self.headers.items()})
            if server.redirect:
                self.send_response(302)
                self.send_header("Location", server.redirect)
                self.end_headers()
                return
            if server.status != 200:
                self.send_error(server.status)
                return
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(asked[1]) if asked and server.ranges else 0
            body = server.content[start:]
            self.send_response(206 if asked and server.ranges else 200)
            if asked and server.ranges:
                end = len(server.content)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
            if server.length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self._send(body)

        def _send(self, body: bytes) -> None:
            if server.stall is not None:
                self.wfile.write(body[: len(body) // 2])
                server.stall.wait(30)
                return
            if server.cuts > 0 and server.cut_after is not None:
                server.cuts -= 1
                self.wfile.write(body[: server.cut_after])
                self.close_connection = True
                return
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer((address, 0), Handler)
    httpd.daemon_threads = True
    server.port = httpd.server_address[1]
    threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        if server.stall is not None:
            server.stall.set()
        httpd.shutdown()
        httpd.server_close()
