"""Ask the endpoints of a manifest from this machine, as their clients would: is the model there?

In: an EndpointsDocument and the manifest's secrets. Out: the same with `state`. One request each, past any
proxy; what listens on another machine's loopback is not asked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ..errors import SecretError
from ..secrets import Secrets
from ..types.base import SecretRef
from ..types.deployment import Deployment
from ..types.endpoint import SERVING, EndpointsDocument, ModelEndpoint
from ..types.pointer import values

_TIMEOUT_S = 10.0
_LARGEST = 1 << 20
"""Bytes of an answer: something else may listen there, and talk without end."""
_AT_ONCE = 16


def checked(
    document: EndpointsDocument, deployment: Deployment, secrets: Secrets, on: Collection[str]
) -> EndpointsDocument:
    """on: hosts whose loopback is this machine's."""
    refs = {(each.model, each.host): each.api_key for each in deployment.placements}

    def state(each: ModelEndpoint) -> str:
        if not each.url or (each.reach == "host" and each.host not in on):
            return ""
        return _asked(each, refs[each.model, each.host], secrets)

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        states = list(pool.map(state, document.endpoints))
    pairs = zip(document.endpoints, states, strict=True)
    found = tuple(msgspec.structs.replace(each, state=told) for each, told in pairs)
    return msgspec.structs.replace(document, endpoints=found)


def _asked(each: ModelEndpoint, ref: SecretRef | None, secrets: Secrets) -> str:
    import httpx

    from ..resolve.web import read_body

    try:
        headers = {} if ref is None else {"Authorization": f"Bearer {secrets.api_key(ref).reveal()}"}
    except SecretError as error:
        return f"not asked: {error.sentence}"
    try:
        with (
            httpx.Client(trust_env=False, timeout=_TIMEOUT_S) as client,
            client.stream("GET", f"{each.url}/models", headers=headers) as answer,
        ):
            body = read_body(answer, _LARGEST, time.monotonic() + _TIMEOUT_S)
    except httpx.TimeoutException:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    except httpx.HTTPError as error:
        return f"no answer: {secrets.redact(str(error))}"
    return _state(each, answer.status_code, body)


def _state(each: ModelEndpoint, status: int, body: bytes) -> str:
    if status in (401, 403):
        return f"refuses the key ({status})" if each.key else f"wants a key ({status})"
    if status != 200:
        return f"answers {status}"
    try:
        names = values(json.loads(body), "/data/*/id")
    except (ValueError, RecursionError):
        names = []
    return SERVING if each.served_name in names else f"answers, but has no {each.served_name}"
