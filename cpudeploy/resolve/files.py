"""Single files by address: their size, small ones whole or their checksum, the headers of large ones.

In: URLs to try in order, and a token with the one prefix it may be sent to, and the cookie it is sent in
besides the header where its site wants that. Out: facts about the content. Never downloads weights: a header
costs its own bytes, whole are only files up to `SMALL` bytes. Nothing is stored here.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TypeVar

import httpx

from ..errors import HubError
from ..secrets import Secret, login
from ..types.words import decimal_size
from .gguf import HEADER_LIMIT, NeedMore
from .web import limited, open_client, read_body, reason, trust

SMALL = 20_000_000
DEADLINE_S = 60.0
_FIRST_READ = 256 << 10
_GROWTH = 4

T = TypeVar("T")
Parse = Callable[[bytearray, str], T | NeedMore]
"""A header from the bytes that begin a file at a place, or how many it takes."""


class Files:
    """Questions about files on the web. A context manager; share one among threads."""

    def __init__(self, token: Secret | None = None, token_for: str = "", cookie: str = "") -> None:
        self._token = token
        self._token_for = token_for
        self._cookie = cookie
        self._client = open_client(trust())

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def size(self, url: str) -> int:
        """Bytes of the file at `url`, downloading none of it. Raises HubError."""
        return self._first([url], self._size)

    def sha256(self, urls: Sequence[str], size: int, blob: str | None = None) -> str:
        """Checksum of a file of `size` ≤ SMALL bytes; its git `blob` id, where known, must agree."""
        return self._first(urls, lambda url: self._hash(url, size, blob))

    def content(self, urls: Sequence[str], size: int, sha256: str) -> bytes:
        """A whole file of `size` ≤ SMALL bytes, which must be the one with this checksum."""
        return self._first(urls, lambda url: self._body(url, size, sha256))

    def header(self, url: str, parse: Parse[T]) -> T:
        """The header of the file at `url`. Raises HubError."""
        return self._first([url], lambda address: self._header(address, parse))

    def _first(self, urls: Sequence[str], ask: Callable[[str], T]) -> T:
        failures: list[HubError] = []
        for url in urls:
            try:
                return ask(url)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                why = reason(error)
                failures.append(HubError(why.text, where=url, do=why.do))
            except HubError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        told = "".join(f"\n  {failure.where}: {failure.what}" for failure in failures)
        raise HubError(f"no address serves it{told}", where=urls[0], do=failures[-1].do)

    @contextmanager
    def _open(self, url: str, start: int | None = None, end: int | None = None) -> Iterator[httpx.Response]:
        """A streamed answer, as it is stored (no compression), from byte `start` to before `end`."""
        headers = {"Accept-Encoding": "identity"}
        if start is not None and end is not None:
            headers["Range"] = f"bytes={start}-{end - 1}"
        if self._token is not None and self._token_for and url.startswith(self._token_for):
            headers |= login(self._token, self._cookie)
        with self._client.stream("GET", url, headers=headers) as response:
            if not response.is_success:
                raise _refused(url, response.status_code)
            yield response

    def _size(self, url: str) -> int:
        # One byte of a range, not HEAD: signed storage addresses often allow GET only.
        with self._open(url, 0, 1) as response:
            if response.status_code == 206:
                told = response.headers.get("Content-Range", "").rpartition("/")[2]
            else:
                told = response.headers.get("Content-Length", "")
        if not told.isascii() or not told.isdigit():
            raise HubError("the server does not tell the file's size", where=url, do="use another address")
        return int(told)

    def _hash(self, url: str, size: int, blob: str | None) -> str:
        if size > SMALL:
            what = f"{decimal_size(size)} without a checksum on the Hub; only small files are hashed here"
            raise HubError(what, where=url, do="use a repository that keeps this file in LFS")
        with self._open(url) as response:
            body = read_body(response, size, time.monotonic() + DEADLINE_S)
        git = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
        if len(body) != size or (blob is not None and blob != git):
            raise HubError("the content is not what the repository lists", where=url, do="use another mirror")
        return hashlib.sha256(body).hexdigest()

    def _body(self, url: str, size: int, sha256: str) -> bytes:
        if size > SMALL:
            what = f"{decimal_size(size)}, more than such a file should have"
            raise HubError(what, where=url, do="use another repository")
        with self._open(url) as response:
            body = read_body(response, size, time.monotonic() + DEADLINE_S)
        if hashlib.sha256(body).hexdigest() != sha256:
            raise HubError("the content is not what the repository lists", where=url, do="use another mirror")
        return body

    def _header(self, url: str, parse: Parse[T]) -> T:
        data = bytearray()
        want, deadline = _FIRST_READ, time.monotonic() + DEADLINE_S
        while True:
            before = len(data)
            with self._open(url, before, want) as response:
                if response.status_code != 206:
                    # No ranges here: one stream from the start, read no further than the header.
                    return _from_chunks(limited(response, deadline), url, parse)
                for chunk in limited(response, deadline):
                    data += chunk[: want - len(data)]
                    if len(data) == want:
                        break
            parsed = parse(data, url)
            if not isinstance(parsed, NeedMore):
                return parsed
            if len(data) == before or len(data) < want:
                raise _truncated(url)
            want = _next(parsed, len(data))


def read_header(file: BinaryIO, where: str, parse: Parse[T]) -> T:
    """The header of a local file opened for reading. Raises HubError."""
    return _from_chunks(iter(lambda: file.read(_FIRST_READ), b""), where, parse)


def _from_chunks(chunks: Iterator[bytes], where: str, parse: Parse[T]) -> T:
    """Read until the header is whole; parsing starts anew only when the data has grown well."""
    data = bytearray()
    want = _FIRST_READ
    for chunk in chunks:
        data += chunk
        if len(data) >= want:
            parsed = parse(data, where)
            if not isinstance(parsed, NeedMore):
                return parsed
            want = _next(parsed, len(data))
    parsed = parse(data, where)
    if isinstance(parsed, NeedMore):
        raise _truncated(where)
    return parsed


def _next(short: NeedMore, have: int) -> int:
    """How many bytes to have before parsing again: at least what is known to be needed."""
    return min(max(short.size, have * _GROWTH), HEADER_LIMIT)


def _truncated(where: str) -> HubError:
    return HubError(
        "the file ends within its header", where=where, do="it is damaged or cut off: get it again"
    )


def _refused(url: str, status: int) -> HubError:
    if status in (401, 403):
        do = "accept the model's conditions on its page, and set `token` of an account that may read it"
        return HubError(f"not allowed (status {status})", where=url, do=do)
    if status == 404:
        return HubError("no such file", where=url, do="check the address")
    if status == 416:
        return HubError("the file is empty", where=url, do="it is damaged: use another address")
    return HubError(
        f"the server answered with status {status}", where=url, do="try again later, or use a mirror"
    )
