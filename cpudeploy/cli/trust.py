"""`cpudeploy trust`: see host keys that nobody knows yet, and record those that are right."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import inventory_option, playbooks_option

if TYPE_CHECKING:
    from ..errors import CpudeployError
    from ..transport.trust import Shown
    from ..types.deployment import Host

_AT_ONCE = 32
_ROUNDS = 10
"""More hops than a way to a host can have."""


@click.command("trust")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@inventory_option
@playbooks_option
@click.option("--yes", is_flag=True, help="Record them without asking.")
def command(hosts: tuple[str, ...], inventory: Path, playbooks: tuple[Path, ...], yes: bool) -> int:
    """Show the keys of hosts (all, or those named) that are not known yet, and record them in known_hosts.

    Compare each fingerprint with what the host itself says: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from ..errors import ERROR, OK, ConnectError, CpudeployError, UsageError, worst
    from ..manifest import load
    from .terminal import stdout
    from .troubles import code_of, tell

    deployment = load(inventory, playbooks).deployment
    for name in hosts:
        if name not in deployment.hosts:
            raise UsageError(
                f"no host {name} in the manifest", do=f"choose from {', '.join(deployment.hosts)}"
            )
    pending = [host for name, host in deployment.hosts.items() if not hosts or name in hosts]
    troubles: dict[str, CpudeployError] = {}
    answers: dict[tuple[str, str, Path | None], CpudeployError | bool] = {}
    refused: list[str] = []
    # A host behind a jump shows its key only once the jump is known: so round after round.
    for _ in range(_ROUNDS):
        found = _look(pending, troubles)
        pending = []
        for host, shown in found:
            if shown is None:
                stdout().write(f"{host.name}: known" if host.connection == "ssh" else f"{host.name}: local")
                continue
            question = (shown.known_name, shown.fingerprint, shown.file)
            if question not in answers:
                answers[question] = _answer(shown, yes=yes)
            answer = answers[question]
            if isinstance(answer, CpudeployError):
                troubles[host.name] = answer
            elif answer:
                pending.append(host)
            else:
                refused.append(host.name)
        if not pending:
            break
    for host in pending:
        troubles[host.name] = ConnectError(
            "its key was recorded, and is still not known",
            do="see that the known_hosts file can be read, and what `ssh -G` says of it",
        )
    tell(troubles)
    if refused and not yes and not sys.stdin.isatty():
        raise UsageError(
            f"nobody can be asked here, so nothing was recorded for {', '.join(refused)}",
            do="compare the fingerprints, then run it in a terminal, or with --yes",
        )
    return worst([ERROR if refused else OK, *(code_of(error) for error in troubles.values())])


def _look(hosts: Iterable[Host], troubles: dict[str, CpudeployError]) -> list[tuple[Host, Shown | None]]:
    """The next unknown key of each host; what keeps one from showing any is its trouble."""
    from ..errors import CpudeployError
    from ..transport import Starts
    from ..transport.trust import next_unknown

    starts = Starts()

    def one(host: Host) -> Shown | CpudeployError | None:
        try:
            return next_unknown(host, starts)
        except CpudeployError as error:
            return error

    found: list[tuple[Host, Shown | None]] = []
    hosts = list(hosts)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for host, result in zip(hosts, pool.map(one, hosts), strict=True):
            if isinstance(result, CpudeployError):
                troubles[host.name] = result
            else:
                found.append((host, result))
    return found


def _answer(shown: Shown, *, yes: bool) -> CpudeployError | bool:
    """Show a key, ask, and record it; whether it is recorded now, or why it can't be."""
    from ..errors import CpudeployError
    from .terminal import stdout

    stdout().write(f"{shown.hop}: {shown.known_name} shows {shown.algorithm} {shown.fingerprint}")
    asks = not yes and shown.file is not None  # without a file recording it says what to do
    if asks and not (sys.stdin.isatty() and click.confirm(f"Record it in {shown.file}?", err=True)):
        return False
    try:
        file = shown.record()
    except CpudeployError as error:
        return error
    stdout().write(f"{shown.hop}: recorded in {file}")
    return True
