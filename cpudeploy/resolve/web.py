"""HTTP for the controller's own questions: clients with short deadlines, failures told in words.

In: addresses and certificates. Out: httpx clients, bounded bodies, and for a transport failure the
reason a person understands. Never decides what a failure means for the plan; never retries.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import httpx

CONNECT_S = 3.0
READ_S = 10.0
AGENT = "cpudeploy"

# OpenSSL's verify codes for "signed by someone we don't know".
_UNKNOWN_CA = frozenset({2, 18, 19, 20, 21})
_HOSTNAME_MISMATCH = frozenset({62, 64})


@dataclass(frozen=True)
class Reason:
    """Why nothing came back. `passing`: trying again at once may help."""

    text: str
    do: str = ""
    passing: bool = False


class TooLarge(httpx.ReadError):
    """The answer is longer than anything of its kind should be."""


@cache
def trust(ca: str | None = None) -> ssl.SSLContext:
    """The machine's certificate authorities and, in PEM, one more: read once, which takes a while.
    Raises ValueError for other text."""
    context = ssl.create_default_context()
    if ca is not None:
        try:
            context.load_verify_locations(cadata=ca)
        except (ssl.SSLError, ValueError):
            raise ValueError("not a certificate in PEM form") from None
    return context


def open_client(verify: ssl.SSLContext) -> httpx.Client:
    """A client that gives up soon. Redirects drop `Authorization` when they leave the host."""
    return httpx.Client(
        verify=verify,
        timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
        follow_redirects=True,
        max_redirects=5,
        headers={"User-Agent": AGENT},
    )


def read_body(response: httpx.Response, limit: int, deadline: float) -> bytes:
    """The body of a streamed response. Raises TooLarge beyond `limit` bytes, httpx.ReadTimeout past
    `deadline` (monotonic): neither an endless nor a dripping answer holds a plan up."""
    body = bytearray()
    for chunk in limited(response, deadline):
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the answer is larger than {limit} bytes")
    return bytes(body)


def limited(response: httpx.Response, deadline: float) -> Iterator[bytes]:
    """Chunks of a streamed response until `deadline` (monotonic)."""
    for chunk in response.iter_bytes(65536):
        yield chunk
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer took too long")


def reason(error: Exception) -> Reason:
    """What a transport failure was, from the exceptions behind it (not from their messages)."""
    if isinstance(error, httpx.ConnectTimeout):
        return Reason(f"no connection within {CONNECT_S:.0f} s")
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return Reason(
                "the name does not resolve", "check the name, or this machine's DNS and proxy settings"
            )
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate(cause)
        if isinstance(cause, ssl.SSLError):
            if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
                return Reason(
                    "it does not speak TLS", "write the place with http:// if it is meant to be plain HTTP"
                )
            return Reason(f"TLS failed ({cause.reason or 'no reason given'})")
    for cause in causes:
        if isinstance(cause, ConnectionRefusedError):
            return Reason("connection refused", passing=True)
        if isinstance(cause, TimeoutError):
            return Reason("no answer in time")
    if isinstance(error, httpx.TimeoutException):
        return Reason("no answer in time")
    if isinstance(error, TooLarge):
        return Reason(str(error))
    if isinstance(error, httpx.TooManyRedirects):
        return Reason("it redirects in circles")
    if isinstance(error, httpx.ProxyError):
        return Reason("the proxy refused", "check HTTPS_PROXY and NO_PROXY")
    if isinstance(error, httpx.ConnectError):
        return Reason("no connection", passing=True)
    return Reason("the connection broke", passing=True)


def _certificate(error: ssl.SSLCertVerificationError) -> Reason:
    if error.verify_code in _UNKNOWN_CA:
        return Reason(
            "its certificate is signed by an authority this machine does not know",
            "set `ca:` for it under `registries`",
        )
    if error.verify_code in _HOSTNAME_MISMATCH:
        return Reason("its certificate is for another name", "use the name that the certificate carries")
    return Reason(f"its certificate does not hold ({error.verify_message})")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
