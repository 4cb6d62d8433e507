"""`cpudeploy plan`: what apply would change."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from ..errors import CHANGES, ERROR, OK, UNREACHABLE, worst
from ..types.facts import Facts
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
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Save the plan too, to be carried out once by `apply FILE`.",
)
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
    file: Path | None,
    detailed_exitcode: bool,
    output: str,
) -> int:
    """Show what apply would change, and why. Changes nothing."""
    from .deciding import decide, decide_recorded
    from .saved import write_plan
    from .shown import show_plan
    from .site import site

    if facts is not None:
        # A plan of records can be read, never applied: there is nothing to save it for.
        exclude("--facts", {"--ask-sudo-pass": ask_sudo_pass, "-o": file is not None})
        plan = decide_recorded(
            inventory, facts, playbooks=playbooks, limit=limit, repack=repack, retry=retry, adopt=adopt
        )
        show_plan(plan, output=output, verbose=verbose, facts_s=None)
    else:
        with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
            plan = decide(found, inventory, repack=repack, retry=retry, adopt=adopt)
            if file is not None:
                plan = write_plan(file, plan)
            show_plan(plan, output=output, verbose=verbose, facts_s=found.facts_s)
            if file is not None:
                _tell_saved(plan, found.facts, file, output)
    return _code(plan, detailed=detailed_exitcode)


def _tell_saved(plan: Plan, facts: Mapping[str, Facts], file: Path, output: str) -> None:
    """What can be done with the file now; beside a document for programs, on stderr."""
    from .saved import cautions
    from .terminal import stderr, stdout
    from .troubles import note

    for name, text in cautions(plan, facts):
        note(name, text)
    nothing = "it changes nothing" if plan.empty else f"cpudeploy apply {shlex.quote(str(file))}"
    (stdout() if output == "text" else stderr()).try_write(f"saved in {file}: {nothing}")


def _code(plan: Plan, *, detailed: bool) -> int:
    codes = [CHANGES if detailed and not plan.empty else OK]
    codes += [UNREACHABLE for host in plan.hosts.values() if host.unreachable]
    codes += [ERROR for host in plan.hosts.values() if host.unknown or host.unplanned or host.held]
    return worst(codes)
