"""`cpudeploy unlock`: who holds the hosts, and an end to a lease that nobody works under any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import inventory_argument, limit_option, playbooks_option, sudo_option

if TYPE_CHECKING:
    from ..errors import CpudeployError
    from ..execute.lease_break import Seen
    from ..transport import Connection

_AT_ONCE = 32


@click.command("unlock")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@click.option("--yes", is_flag=True, help="Do it without asking.")
def command(
    inventory: Path, limit: tuple[str, ...], playbooks: tuple[Path, ...], ask_sudo_pass: bool, yes: bool
) -> int:
    """Take the hosts away from whoever holds them. Who does can't change anything there from then on.

    What is under way is ended, and put back where a guard waits for it. A lease that nobody renews expires by
    itself after a minute.
    """
    from ..errors import CpudeployError, worst
    from ..execute.lease_break import break_lease, see_lease
    from ..transport import Starts, connect
    from .asking import agree
    from .site import read_manifest
    from .terminal import stdout
    from .troubles import code_of, tell

    _, deployment, secrets = read_manifest(inventory, playbooks, limit, ask_sudo_pass)
    starts, console = Starts(), stdout()
    troubles: dict[str, CpudeployError] = {}
    reached: dict[str, Connection] = {}
    seen: dict[str, Seen] = {}

    def look(name: str) -> None:
        try:
            reached[name] = connect(deployment.hosts[name], secrets, starts)
            if (found := see_lease(reached[name])) is not None:
                seen[name] = found
        except CpudeployError as error:
            troubles[name] = error

    with ExitStack() as closing:
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(look, deployment.hosts))
        for connection in reached.values():
            closing.callback(connection.close)
        for name in deployment.hosts:
            if name not in troubles:
                console.write(f"{name}: {_told(seen.get(name))}")
        tell(troubles)
        held = [name for name in deployment.hosts if name in seen]
        if held and not yes:
            agree(f"Unlock {', '.join(held)}?", command="unlock")
        for name in held:
            try:
                broken = break_lease(reached[name], seen[name])
            except CpudeployError as error:
                tell({name: error})
                troubles[name] = error
                continue
            console.write(f"{name}: {'unlocked' if broken else 'given back meanwhile'}")
    return worst(code_of(error) for error in troubles.values())


def _told(seen: Seen | None) -> str:
    """One host's lease in words."""
    from ..execute.lease import ago
    from ..report.text import clean

    if seen is None:
        return "not locked"
    if seen.damaged:
        return "locked by nobody: the lease is damaged"
    lease = seen.lease
    words = f"{lease.command} of {lease.deployment}" if lease.deployment else lease.command
    if lease.expired:
        heard = "expired: anybody may take it over"
    else:
        heard = f"for {ago(lease.since_s)}, last heard of {ago(lease.silent_s)} ago"
    return clean(f"held by {lease.holder} ({words}), {heard}")
