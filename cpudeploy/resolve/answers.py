"""One JSON answer of a site of models: a request, bounded in time and size.

In: an address and who asks. Out: the status and the document. Raises Distant where no answer came.
"""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from ..secrets import login
from .files import DEADLINE_S
from .snapshots import Asked, Distant
from .web import CONNECT_S, open_client, read_body, reason, trust

_LARGEST = 32 << 20
"""Bytes of the largest listing."""


def answer(address: str, asked: Asked, *, cookie: str = "", do: str) -> tuple[int, Any]:
    """The status, and what a good answer says: None where that is no JSON. `cookie`: its name, where a token
    goes in one, too; `do`: what helps where the site can't be reached."""
    timeout = httpx.Timeout(asked.patience, connect=min(CONNECT_S, asked.patience))
    headers = login(asked.token, cookie) if asked.token else {}
    try:
        with (
            open_client(trust()) as client,
            client.stream("GET", address, headers=headers, timeout=timeout) as response,
        ):
            body = read_body(response, _LARGEST, time.monotonic() + DEADLINE_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = reason(error)
        raise Distant(why.text, where=asked.endpoint, do=why.do or do) from None
    if response.status_code != 200:
        return response.status_code, None
    try:
        return 200, json.loads(body)
    except (ValueError, RecursionError):
        return 200, None
