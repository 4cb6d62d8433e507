"""`cpudeploy plan`: what apply would change."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import CHANGES, ERROR, OK, UNREACHABLE, worst
from ..types.plan import Plan
from .options import (
    adopt_option,
    exclude,
    facts_option,
    format_option,
    inventory_argument,
    limit_option,
    playbooks_option,
    repack_option,
    retry_option,
    sudo_option,
    verbose_option,
)


@click.command("plan")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@repack_option
@retry_option
@adopt_option
@facts_option("Plan from what `facts -o DIR` recorded: no host, registry or Hub is asked, no secret read.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes.")
@format_option("text", "json", "markdown")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    repack: bool,
    retry: bool,
    adopt: bool,
    facts: Path | None,
    detailed_exitcode: bool,
    output: str,
) -> int:
    """Show what apply would change, and why. Changes nothing."""
    from .deciding import decide, decide_recorded
    from .site import site

    if facts is not None:
        exclude("--facts", {"--ask-sudo-pass": ask_sudo_pass})
        plan = decide_recorded(
            inventory, facts, playbooks=playbooks, limit=limit, repack=repack, retry=retry, adopt=adopt
        )
        _show(plan, output, verbose, None)
    else:
        with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
            plan = decide(found, inventory, repack=repack, retry=retry, adopt=adopt)
            _show(plan, output, verbose, found.facts_s)
    return _code(plan, detailed=detailed_exitcode)


def _show(plan: Plan, output: str, verbose: bool, facts_s: float | None) -> None:
    from ..report.json_text import json_document
    from ..report.plan_markdown import render_plan_markdown
    from ..report.plan_text import render_plan
    from .terminal import stdout

    console = stdout()
    if output == "json":
        console.write(json_document(plan))
    elif output == "markdown":
        console.write(render_plan_markdown(plan))
    else:
        console.write(
            render_plan(plan, colour=console.colour, width=console.width, verbose=verbose, facts_s=facts_s)
        )


def _code(plan: Plan, *, detailed: bool) -> int:
    codes = [CHANGES if detailed and not plan.empty else OK]
    codes += [UNREACHABLE for host in plan.hosts.values() if host.unreachable]
    codes += [ERROR for host in plan.hosts.values() if host.unknown or host.unplanned or host.held]
    return worst(codes)
