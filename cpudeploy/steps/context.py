"""What a step is given, and the helpers all steps share for naming things on a host."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

from ..types.deployment import Deployment, Host
from ..types.facts import Facts
from ..types.operation import Script
from ..types.resolved import Resolved

ENGINE_ROOT = "/var/lib/docker"
"""Where an engine will keep its images when it is not there yet to be asked."""

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class HostContext:
    """One host while its part of the plan is made."""

    deployment: Deployment
    host: Host
    facts: Facts
    resolved: Resolved


def pointer(*parts: str) -> str:
    """A JSON pointer (RFC 6901) from its unescaped parts."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def script(
    name: str, args: dict[str, str], *, id: str, deadline_s: int, begins_with: tuple[str, ...] = ()
) -> Script:
    """A script of ours as an operation, its text resolved now. `begins_with`: scripts put before it."""
    folder = resources.files(__package__) / "scripts"
    text = "".join((folder / f"{part}.sh").read_text(encoding="utf-8") for part in (*begins_with, name))
    return Script(
        id=id,
        deadline_s=deadline_s,
        script=name,
        args=args,
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
    )
