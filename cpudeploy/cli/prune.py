"""`cpudeploy prune`: free what old releases hold on the hosts."""

from __future__ import annotations

from pathlib import Path

import click

from .options import (
    format_option,
    inventory_argument,
    limit_option,
    playbooks_option,
    sudo_option,
    verbose_option,
)


@click.command("prune")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@click.option(
    "--keep",
    default=5,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Releases a host that stay, beside those in use and the one to roll back to.",
)
@click.option(
    "--unfinished", is_flag=True, help="Also what was downloaded for an apply that did not come to use it."
)
@click.option("--dry-run", is_flag=True, help="Show what would go, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@format_option("text", "json")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    keep: int,
    unfinished: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> int:
    """Remove old releases of this deployment, and the images and weights that nobody needs any more.

    What runs, what a rollback goes back to, and all that other deployments have stays.
    """
    from ..errors import ERROR, OK, worst
    from ..plan import prune_plan
    from .asking import agree
    from .carrying_out import carry_out
    from .deciding import origin_of
    from .settling import put_right
    from .shown import show_plan
    from .site import site

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        if not dry_run:
            put_right(found, origin_of(inventory))
        plan = prune_plan(
            found.deployment,
            found.facts,
            keep=keep,
            unfinished=unfinished,
            origin=origin_of(inventory),
            unreachable=found.unreachable,
            unknown=found.unknown,
        )
        if dry_run:
            show_plan(plan, output=output, verbose=verbose, facts_s=found.facts_s)
            return worst([ERROR if any(host.unknown for host in plan.hosts.values()) else OK, found.code])
        asks = not (plan.empty or yes)
        if asks:
            if output == "text":
                show_plan(plan, output=output, verbose=verbose, facts_s=found.facts_s)
            agree("Remove this?", command="prune")
        return carry_out(
            plan,
            found.connection,
            found.secrets,
            output=output,
            verbose=verbose,
            facts_s=found.facts_s,
            told=asks,
        ).code
