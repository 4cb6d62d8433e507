"""The hosts of one manifest, reached: connections, facts, and who could not be reached and why.

In: a manifest and what the command line narrows it to. Out: `Site`, used by every command that talks to
hosts. Hosts are reached in parallel, one connection each, kept open until the command ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..errors import ConnectError, UsageError
from ..manifest import Manifest, load
from ..plan.questions import questions
from ..probe import probe
from ..secrets import Secret, Secrets
from ..transport import Connection, connect
from ..types.base import SecretRef
from ..types.deployment import Deployment, Host, Sudo
from ..types.facts import Facts

_AT_ONCE = 32
"""Hosts connected to at the same time."""


@dataclass
class Site:
    """What one command knows of its hosts. `facts_s`: seconds the slowest took to tell."""

    manifest: Manifest
    deployment: Deployment
    secrets: Secrets
    connections: dict[str, Connection] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    facts_s: float = 0.0


def read_manifest(
    inventory: Path, playbooks: Sequence[Path], limit: Sequence[str], ask_sudo: bool
) -> tuple[Manifest, Deployment, Secrets]:
    """The manifest, the deployment narrowed to `limit`, and its secrets (sudo's asked for now)."""
    manifest = load(inventory, tuple(playbooks))
    deployment = _limited(manifest.deployment, limit)
    secrets = Secrets(Path(deployment.base))
    if ask_sudo:
        deployment = _with_asked_sudo(deployment, secrets)
    return manifest, deployment, secrets


@contextmanager
def site(
    inventory: Path, *, playbooks: Sequence[Path] = (), limit: Sequence[str] = (), ask_sudo: bool = False
) -> Iterator[Site]:
    """Connect to every host and probe it; close every connection at the end."""
    manifest, deployment, secrets = read_manifest(inventory, playbooks, limit, ask_sudo)
    found = Site(manifest=manifest, deployment=deployment, secrets=secrets)
    try:
        _reach(found)
        yield found
    finally:
        for connection in found.connections.values():
            connection.close()


def _reach(found: Site) -> None:
    started = time.monotonic()
    hosts = found.deployment.hosts
    with ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(hosts)))) as pool:
        for name, result in zip(hosts, pool.map(lambda host: _one(found, host), hosts.values()), strict=True):
            if isinstance(result, ConnectError):
                found.unreachable[name] = f"{result.what}" + (f" ({result.do})" if result.do else "")
            else:
                found.facts[name] = result
    found.facts_s = time.monotonic() - started


def _one(found: Site, host: Host) -> Facts | ConnectError:
    try:
        connection = connect(host, found.secrets)
        found.connections[host.name] = connection
        return probe(connection, questions(found.deployment, host))
    except ConnectError as error:
        return error


def _limited(deployment: Deployment, limit: Sequence[str]) -> Deployment:
    if not limit:
        return deployment
    unknown = [name for name in limit if name not in deployment.hosts]
    if unknown:
        raise UsageError(
            f"--limit {unknown[0]}: no such host in the manifest",
            do=f"choose from {', '.join(deployment.hosts)}",
        )
    return msgspec.structs.replace(
        deployment,
        hosts={name: host for name, host in deployment.hosts.items() if name in limit},
        placements=tuple(p for p in deployment.placements if p.host in limit),
    )


def _with_asked_sudo(deployment: Deployment, secrets: Secrets) -> Deployment:
    import sys
    from getpass import getpass

    if not sys.stdin.isatty():
        raise UsageError("--ask-sudo-pass needs a terminal", do="use sudo: {password: {from_env: NAME}}")
    ref = SecretRef(kind="asked", name="sudo")
    secrets.remember(ref, Secret(getpass("sudo password: ")))
    hosts: Mapping[str, Host] = {
        name: msgspec.structs.replace(host, sudo=Sudo(use=host.sudo.use, password=ref))
        for name, host in deployment.hosts.items()
    }
    return msgspec.structs.replace(deployment, hosts=dict(hosts))
