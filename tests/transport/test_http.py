"""HTTP through a real connection to a real server on loopback."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from cpudeploy.errors import OperationFailed
from cpudeploy.transport import ByteStream, Connection
from cpudeploy.transport.http import http_client

from .conftest import free_port, until


class Server(ThreadingHTTPServer):
    daemon_threads = True
    connections = 0

    def __init__(self) -> None:
        self.go_on = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.go_on.wait(20)
        if self.path == "/parts":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (b"first", b"second", b""):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
                if part == b"first":
                    self.server.go_on.wait(20)
            return
        body = self.headers["Host"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/last":
            self.close_connection = True

    def do_POST(self) -> None:
        digest = hashlib.sha256()
        if "Content-Length" in self.headers:
            digest.update(self.rfile.read(int(self.headers["Content-Length"])))
        else:
            while size := int(self.rfile.readline(), 16):
                digest.update(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        body = digest.hexdigest().encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.go_on.set()
        server.shutdown()


@pytest.fixture
def client(server: Server, as_root: Connection) -> Iterator[httpx.Client]:
    with http_client(lambda: as_root.dial_tcp("127.0.0.1", server.server_address[1]), timeout_s=20) as client:
        yield client


def test_requests_share_one_connection(client: httpx.Client, server: Server) -> None:
    for _ in range(5):
        assert client.get("/").text == "localhost"
    assert server.connections == 1


def test_a_connection_the_server_closed_is_not_used_again(server: Server, as_root: Connection) -> None:
    streams: list[ByteStream] = []

    def dial() -> ByteStream:
        streams.append(as_root.dial_tcp("127.0.0.1", server.server_address[1]))
        return streams[-1]

    with http_client(dial, timeout_s=20) as client:
        assert client.get("/last").status_code == 200
        assert until(streams[0].readable)
        assert client.get("/").status_code == 200
    assert len(streams) == 2


def test_a_large_body_goes_up_whole(client: httpx.Client) -> None:
    body = b"0123456789abcdef" * 200_000
    assert client.post("/", content=body).text == hashlib.sha256(body).hexdigest()


def test_a_body_of_parts_goes_up_as_it_is_made(client: httpx.Client) -> None:
    parts = [bytes([number]) * 70_000 for number in range(40)]
    answer = client.post("/", content=iter(parts))
    assert (answer.status_code, answer.text) == (201, hashlib.sha256(b"".join(parts)).hexdigest())


def test_an_answer_is_read_as_it_comes(client: httpx.Client, server: Server) -> None:
    with client.stream("GET", "/parts") as answer:
        parts = answer.iter_raw()
        assert next(parts) == b"first"
        server.go_on.set()
        assert b"".join(parts) == b"second"


def test_silence_is_a_read_timeout(client: httpx.Client) -> None:
    with pytest.raises(httpx.ReadTimeout):
        client.get("/slow", timeout=0.2)


def test_silence_within_an_answer_is_a_read_timeout_too(client: httpx.Client) -> None:
    with client.stream("GET", "/parts", timeout=0.2) as answer, pytest.raises(httpx.ReadTimeout):
        list(answer.iter_raw())


def test_several_requests_at_once_have_a_connection_each(client: httpx.Client, server: Server) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.get("/slow").status_code)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert client.get("/").status_code == 200
    server.go_on.set()
    for thread in threads:
        thread.join()
    assert answers == [200] * 4


def test_errors_of_the_stream_come_out_as_they_are(as_root: Connection) -> None:
    port = free_port()
    with (
        http_client(lambda: as_root.dial_tcp("127.0.0.1", port), timeout_s=5) as client,
        pytest.raises(OperationFailed, match=f"can't reach 127.0.0.1:{port}"),
    ):
        client.get("/")


def test_what_an_engine_said_instead_of_answering_comes_out(as_root: Connection) -> None:
    def dial() -> ByteStream:
        return as_root.stream("read -r _; echo is it running? >&2", deadline_s=20, failure="the engine")

    with (
        http_client(dial, timeout_s=20) as client,
        pytest.raises(OperationFailed, match="the engine: is it running"),
    ):
        client.get("/version")
