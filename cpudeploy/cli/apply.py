"""`cpudeploy apply`: plan, then make it so."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ERROR, OK
from .options import (
    adopt_option,
    format_option,
    inventory_argument,
    limit_option,
    playbooks_option,
    repack_option,
    retry_option,
    sudo_option,
    verbose_option,
)


@click.command("apply")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@repack_option
@retry_option
@adopt_option
@format_option("text", "json")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    repack: bool,
    retry: bool,
    adopt: bool,
    output: str,
) -> int:
    """Bring the hosts to what the manifest says; done only when each model has answered."""
    from .carrying_out import carry_out
    from .deciding import decide
    from .site import site

    def once() -> tuple[int, bool]:
        with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
            plan = decide(found, inventory, repack=repack, retry=retry, adopt=adopt)
            code = carry_out(found, plan, json=output == "json", verbose=verbose)
            return code, any(host.partial for host in plan.hosts.values())

    code, more = once()
    # A second time for what could not be seen the first time; never a third. 1 says only that something was
    # left out of the plan.
    return once()[0] if more and code in (OK, ERROR) else code
