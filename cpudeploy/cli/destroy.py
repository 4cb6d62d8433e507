"""`cpudeploy destroy`: take away everything this deployment owns, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .options import (
    adopt_option,
    format_option,
    inventory_argument,
    limit_option,
    playbooks_option,
    sudo_option,
    verbose_option,
)


@click.command("destroy")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@adopt_option
@click.option("--yes", is_flag=True, help="Do it without asking.")
@format_option("text", "json", "markdown")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    adopt: bool,
    yes: bool,
    output: str,
) -> int:
    """Remove this deployment's containers, networks, state and weights. Engines and packages stay."""
    from ..errors import UsageError
    from ..plan import destroy_plan
    from .carrying_out import carry_out
    from .deciding import origin_of
    from .settling import put_right
    from .site import site

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        put_right(found, origin_of(inventory))
        plan = destroy_plan(
            found.deployment,
            found.facts,
            origin=origin_of(inventory),
            unreachable=found.unreachable,
            unknown=found.unknown,
            adopt=adopt,
        )
        if not plan.empty and not yes:
            if not sys.stdin.isatty():
                raise UsageError("destroy needs --yes where nobody can be asked")
            hosts = ", ".join(name for name, host in plan.hosts.items() if host.changes)
            click.confirm(f"Remove everything of {plan.deployment} from {hosts}?", abort=True, err=True)
        return carry_out(
            plan, found.connection, found.secrets, output=output, verbose=verbose, facts_s=found.facts_s
        )
