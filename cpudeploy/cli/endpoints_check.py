"""Ask the endpoints of a manifest from this machine, as their clients would: is the model there?

In: an EndpointsDocument and the manifest's secrets. Out: the same with `state`. One request each, past any
proxy; what listens on another machine's loopback is not asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from ..errors import SecretError
from ..secrets import Secrets
from ..types.base import SecretRef
from ..types.deployment import Deployment
from ..types.endpoint import SERVING, EndpointsDocument, ModelEndpoint

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 10.0
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

    try:
        headers = {} if ref is None else {"Authorization": f"Bearer {secrets.api_key(ref).reveal()}"}
    except SecretError as error:
        return f"not asked: {error.sentence}"
    try:
        with httpx.Client(trust_env=False, timeout=_TIMEOUT_S) as client:
            answer = client.get(f"{each.url}/models", headers=headers)
    except httpx.TimeoutException:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    except httpx.HTTPError as error:
        return f"no answer: {secrets.redact(str(error))}"
    return _state(each, answer)


def _state(each: ModelEndpoint, answer: httpx.Response) -> str:
    if answer.status_code in (401, 403):
        return (
            f"refuses the key ({answer.status_code})" if each.key else f"wants a key ({answer.status_code})"
        )
    if answer.status_code != 200:
        return f"answers {answer.status_code}"
    try:
        data = answer.json()
    except ValueError:
        data = None
    listed = data.get("data") if isinstance(data, Mapping) else None
    names = [entry.get("id") for entry in listed or () if isinstance(entry, Mapping)]
    return SERVING if each.served_name in names else f"answers, but has no {each.served_name}"
