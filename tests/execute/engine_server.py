"""An engine's API on loopback with the faults a real one can't be made to show at will."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cpudeploy.secrets import Secrets
from cpudeploy.transport import ByteStream
from cpudeploy.transport.local import LocalConnection
from cpudeploy.types.deployment import Host, Ssh

Answer = Callable[["Request"], None]


@dataclass
class EngineServer:
    """Answers by the last part of the path, without its query; anything else is 404."""

    answers: dict[str, Answer] = field(default_factory=dict)
    port: int = 0
    closing: threading.Event = field(default_factory=threading.Event)


class Request:
    """One request, to be answered in pieces."""

    def __init__(self, handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        self._handler = handler
        self.method = handler.command
        self.closing = closing

    def json(self, document: Any, status: int = 200) -> None:
        self.raw(json.dumps(document).encode() if status != 204 else b"", status)

    def raw(self, body: bytes, status: int = 200) -> None:
        self._handler.send_response(status)
        self._handler.send_header("Content-Length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)

    def cut(self) -> None:
        """An answer that breaks off."""
        self._handler.send_response(200)
        self._handler.send_header("Content-Length", "1000")
        self._handler.end_headers()
        self._handler.wfile.write(b"{")
        self._handler.close_connection = True

    def trickle(self, piece: Callable[[int], bytes]) -> None:
        """Pieces without end, a few a second."""
        self._handler.send_response(200)
        self._handler.end_headers()
        self._handler.close_connection = True
        number = 0
        while not self.closing.wait(0.05):
            number += 1
            self._handler.wfile.write(piece(number))

    def silence(self) -> None:
        """Headers and no more."""
        self._handler.send_response(200)
        self._handler.end_headers()
        self._handler.close_connection = True
        self.closing.wait(30)


class Here(LocalConnection):
    """This machine, its engine the one of the test."""

    def __init__(self, secrets: Secrets, port: int) -> None:
        super().__init__(Host(name="here", connection="local", ssh=Ssh(address="here")), secrets)
        self._port = port

    def dial_engine(self) -> ByteStream:
        return self.dial_tcp("127.0.0.1", self._port)


@contextmanager
def engine_serving() -> Iterator[EngineServer]:
    """Run one until the end of the block."""
    server = EngineServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if path == "/_ping":
                self.send_response(200)
                self.send_header("Api-Version", "1.43")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            request = Request(self, server.closing)
            answer = server.answers.get(path.rpartition("/")[2])
            if answer is None:
                request.json({"message": "no such thing"}, 404)
                return
            try:
                answer(request)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server.port = httpd.server_address[1]
    threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.closing.set()
        httpd.shutdown()
        httpd.server_close()
