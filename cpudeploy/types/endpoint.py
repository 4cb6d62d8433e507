"""Where models can be asked, by whom, and with which key. Built by `plan/`, shown by `report/`."""

from __future__ import annotations

import ipaddress
from typing import Literal

from .base import Struct

SERVING = "serving"


class EndpointKey(Struct, frozen=True, kw_only=True):
    """Where a model's API key comes from, never the key itself."""

    kind: str
    """The manifest's key: `from_env`, `from_file`, `from_command`, …"""
    name: str
    """The variable, or the path as the manifest's folder sees it; of a command its first word only."""
    variable: str
    """The environment variable in which configurations made from this document expect the key."""


class ModelEndpoint(Struct, frozen=True, kw_only=True):
    """One instance of a model, and how clients of OpenAI's API reach it."""

    model: str
    host: str
    instance: int = 0
    backend: str
    served_name: str
    """What clients send as `model`."""
    url: str = ""
    """Base URL, such as `http://10.1.2.3:8100/v1`. Empty: not known, `problem` says why."""
    reach: Literal["network", "host", "unknown"] = "unknown"
    """Who can connect: whoever has a route to the address, or only programs on the host itself."""
    tunnel: str = ""
    """For `host`: the command that brings it to 127.0.0.1 of the machine it is run on, or empty."""
    key: EndpointKey | None = None
    """None: the model asks for none."""
    problem: str = ""
    state: str = ""
    """With `--check`: `serving`, or in words what came of asking it from this machine. Empty: not asked."""


class EndpointsDocument(Struct, frozen=True, kw_only=True):
    """Where the models of a manifest answer once it is applied, in the manifest's order.

    Worked out from the manifest (and recorded facts, where given); no host was asked for it.
    """

    schema: Literal["cpudeploy.endpoints/1"] = "cpudeploy.endpoints/1"
    deployment: str
    endpoints: tuple[ModelEndpoint, ...]


def url_of(address: str, port: int) -> str:
    """`http://127.0.0.1:8100/v1`, an IPv6 address in brackets."""
    try:
        ipv6 = ipaddress.ip_address(address).version == 6
    except ValueError:
        ipv6 = False
    # A zone's % has to be escaped in a URL (RFC 6874).
    shown = f"[{address.replace('%', '%25')}]" if ipv6 else address
    return f"http://{shown}:{port}/v1"
