"""The hosts of one manifest, reached: connections, facts, and who could not be reached and why.

In: a manifest and what the command line narrows it to. Out: `Site`, used by every command that talks to
hosts. Hosts are reached in parallel, one connection each, kept open until the command ends. What goes
wrong with one host is kept beside its name and never keeps the others from being asked.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ConnectError, CpudeployError, UsageError, worst
from ..manifest import Manifest, load
from ..plan.questions import questions
from ..probe import probe
from ..secrets import Secret, Secrets
from ..transport import Connection, Starts, connect
from ..types.base import SecretRef
from ..types.deployment import Deployment, Host, Sudo
from ..types.facts import Facts
from ..types.plan import HostPlan
from .terminal import stderr
from .troubles import code_of, note

_AT_ONCE = 32
"""Hosts connected to at the same time."""

_SIGN_OF_LIFE_S = 5
_NAMED = 5
"""Hosts named while they are waited for; more are counted."""


@dataclass
class Site:
    """What one command knows of its hosts: facts, or why there are none.

    `facts_s`: seconds the slowest took to tell.
    """

    manifest: Manifest
    deployment: Deployment
    secrets: Secrets
    connections: dict[str, Connection] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    troubles: dict[str, CpudeployError] = field(default_factory=dict)
    facts_s: float = 0.0

    @property
    def unreachable(self) -> dict[str, str]:
        """Hosts that could not be reached: name → why."""
        return {
            name: error.sentence for name, error in self.troubles.items() if isinstance(error, ConnectError)
        }

    @property
    def unknown(self) -> dict[str, str]:
        """Hosts that were reached, or could have been, but of which nothing is known: name → why."""
        reached = self.troubles.keys() - self.unreachable.keys()
        return {name: error.sentence for name, error in self.troubles.items() if name in reached}

    def connection(self, plan: HostPlan) -> Connection:
        """The open connection to a host. Raises ConnectError where there is none."""
        name = plan.host.name
        if name not in self.connections:
            raise ConnectError("not connected", where=name)
        return self.connections[name]

    @property
    def code(self) -> int:
        """The exit code that the hosts without facts call for; 0 without any."""
        return worst(code_of(error) for error in self.troubles.values())


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
    inventory: Path,
    *,
    playbooks: Sequence[Path] = (),
    limit: Sequence[str] = (),
    ask_sudo: bool = False,
    model: str = "",
) -> Iterator[Site]:
    """Connect to every host and probe it (with `model`: every host of that model); close every
    connection at the end."""
    manifest, deployment, secrets = read_manifest(inventory, playbooks, limit, ask_sudo)
    if model:
        deployment = narrowed(deployment, hosts_of(deployment, model))
    found = Site(manifest=manifest, deployment=deployment, secrets=secrets)
    try:
        _reach(found)
        yield found
    finally:
        for connection in found.connections.values():
            connection.close()


def _reach(found: Site) -> None:
    started = time.monotonic()
    hosts, starts = found.deployment.hosts, Starts()
    with ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(hosts)))) as pool:
        asked = {name: pool.submit(_one, found, host, starts) for name, host in hosts.items()}
        wait_for_all(asked, "still asking")
        for name, future in asked.items():
            result = future.result()
            if isinstance(result, CpudeployError):
                found.troubles[name] = result
            else:
                found.facts[name] = result
    found.facts_s = time.monotonic() - started
    notes: dict[str, list[str]] = {}
    for name, connection in found.connections.items():
        for text in connection.notes:
            notes.setdefault(text, []).append(name)
    for text, names in notes.items():
        note(names[0] if len(names) == 1 else f"{len(names)} hosts", text)


def wait_for_all(asked: Mapping[str, Future[Any]], doing: str) -> None:
    """Wait for all, with a sign of life on stderr for as long as some host lets us wait."""
    while waiting := wait(asked.values(), timeout=_SIGN_OF_LIFE_S).not_done:
        tell_awaited([name for name, future in asked.items() if future in waiting], doing)


def tell_awaited(names: Sequence[str], doing: str = "still asking") -> None:
    """A sign of life on stderr: who or what has not answered yet."""
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if names[_NAMED:] else "")
    stderr().try_write(f"{doing} {shown}")


def _one(found: Site, host: Host, starts: Starts) -> Facts | CpudeployError:
    try:
        connection = connect(host, found.secrets, starts)
        found.connections[host.name] = connection
        return probe(connection, questions(found.deployment, host))
    except CpudeployError as error:
        return error


def narrowed(deployment: Deployment, hosts: Collection[str]) -> Deployment:
    """The deployment as if `hosts` were all it has."""
    return msgspec.structs.replace(
        deployment,
        hosts={name: host for name, host in deployment.hosts.items() if name in hosts},
        placements=tuple(p for p in deployment.placements if p.host in hosts),
    )


def hosts_of(deployment: Deployment, model: str) -> set[str]:
    """Hosts of a model. Raises UsageError for one that the manifest doesn't place here."""
    hosts = {placement.host for placement in deployment.placements if placement.model == model}
    if not hosts:
        models = ", ".join(dict.fromkeys(p.model for p in deployment.placements)) or "none"
        raise UsageError(f"no model {model} here", do=f"choose from: {models}")
    return hosts


def _limited(deployment: Deployment, limit: Sequence[str]) -> Deployment:
    if not limit:
        return deployment
    unknown = [name for name in limit if name not in deployment.hosts]
    if unknown:
        raise UsageError(
            f"--limit {unknown[0]}: no such host in the manifest",
            do=f"choose from {', '.join(deployment.hosts)}",
        )
    return narrowed(deployment, limit)


def ask_sudo_password(secrets: Secrets) -> SecretRef:
    """Ask for it on the terminal; the reference that `secrets` then knows it under."""
    import sys
    from getpass import getpass

    if not sys.stdin.isatty():
        raise UsageError("--ask-sudo-pass needs a terminal", do="use sudo: {password: {from_env: NAME}}")
    ref = SecretRef(kind="asked", name="sudo")
    secrets.remember(ref, Secret(getpass("sudo password: ")))
    return ref


def _with_asked_sudo(deployment: Deployment, secrets: Secrets) -> Deployment:
    ref = ask_sudo_password(secrets)
    hosts: Mapping[str, Host] = {
        name: msgspec.structs.replace(host, sudo=Sudo(use=host.sudo.use, password=ref))
        for name, host in deployment.hosts.items()
    }
    return msgspec.structs.replace(deployment, hosts=dict(hosts))
