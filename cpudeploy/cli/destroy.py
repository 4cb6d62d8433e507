"""`cpudeploy destroy`: take away everything this deployment owns, and nothing else."""

from __future__ import annotations

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
    """Remove this deployment: its containers, networks, volumes, state and weights. The rest stays."""
    from ..plan import destroy_plan
    from .asking import agree
    from .carrying_out import carry_out
    from .deciding import origin_of
    from .settling import put_right
    from .shown import show_plan
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
        asks = not (plan.empty or yes)
        if asks:
            if output == "text":
                show_plan(plan, output=output, verbose=verbose, facts_s=found.facts_s)
            hosts = ", ".join(name for name, host in plan.hosts.items() if host.changes)
            agree(f"Remove everything of {plan.deployment} from {hosts}?", command="destroy")
        return carry_out(
            plan,
            found.connection,
            found.secrets,
            output=output,
            verbose=verbose,
            facts_s=found.facts_s,
            told=asks,
        ).code
