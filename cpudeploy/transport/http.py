"""HTTP/1.1 over byte streams: the engine's API and model endpoints through a host's connection.

In: something that opens a ByteStream. Out: an httpx.Client that opens as many as it needs and keeps
them alive. Ignores proxies and environment of this machine; never resolves a name.
"""

from __future__ import annotations

import contextlib
import ssl
import typing
from collections.abc import Callable, Iterable, Iterator

import httpcore
import httpx

from .base import ByteStream

BASE_URL = "http://localhost"
_MOST_STREAMS = 5
"""Below the channels of a connection, so that scripts go on while transfers run."""


def http_client(open_stream: Callable[[], ByteStream], *, timeout_s: float) -> httpx.Client:
    """A client whose every connection is `open_stream()`; closing it closes them.

    `timeout_s`: seconds of silence, for reading and writing; give `timeout=` a request where an answer
    may take longer. Relative URLs work. Errors of `open_stream` and of the stream (ConnectError,
    OperationFailed, ConnectionLost) come out as they are, those of HTTP as httpx's own.
    """
    pool = httpcore.ConnectionPool(
        network_backend=_Backend(open_stream),
        max_connections=_MOST_STREAMS,
        max_keepalive_connections=_MOST_STREAMS,
        keepalive_expiry=60,
    )
    return httpx.Client(
        transport=_Transport(pool),
        base_url=BASE_URL,
        timeout=httpx.Timeout(timeout_s),
        trust_env=False,
        follow_redirects=False,
    )


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._stream.read(max_bytes, timeout)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._stream.write(buffer, timeout)
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from None

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.UnsupportedProtocol("TLS is not spoken through a host's connection")

    def get_extra_info(self, info: str) -> typing.Any:
        # The pool asks before it uses an idle connection again: readable means the far end closed it.
        return self._stream.readable() if info == "is_readable" else None


class _Backend(httpcore.NetworkBackend):
    def __init__(self, open_stream: Callable[[], ByteStream]) -> None:
        self._open_stream = open_stream

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[typing.Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(self._open_stream())


class _Body(httpx.SyncByteStream):
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._parts

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


class _Transport(httpx.BaseTransport):
    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        inner = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _httpx_errors():
            response = self._pool.handle_request(inner)
        assert isinstance(response.stream, Iterable)
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


@contextlib.contextmanager
def _httpx_errors() -> Iterator[None]:
    """httpcore's errors as httpx's of the same name."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as error:
        kind = getattr(httpx, type(error).__name__, httpx.TransportError)
        raise kind(str(error)) from error
