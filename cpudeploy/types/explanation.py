"""Every number of a deployment with its reason and where it was wished for. Rendered by `report/`."""

from __future__ import annotations

from .allocation import Allocation
from .base import Struct


class Explained(Struct, frozen=True, kw_only=True):
    """One instance. `listen`: as written; `port`: what it is published on.

    `written`: setting → file:line:column of the value it has, wherever the manifest says it; what is missing
    there is a default.
    """

    host: str
    model: str
    backend: str
    listen: str
    port: int
    allocation: Allocation
    written: dict[str, str] = {}


class Explanation(Struct, frozen=True, kw_only=True):
    """`untold`: host → why there are no numbers for it, or for some of its models."""

    deployment: str
    recorded: str = ""
    """The folder of recorded facts it was made from."""
    instances: tuple[Explained, ...]
    untold: dict[str, tuple[str, ...]] = {}
