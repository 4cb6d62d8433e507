"""`cpudeploy history`: what was applied to the hosts, by their own records."""

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


@click.command("history")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@format_option("text", "json")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    output: str,
) -> int:
    """Show each host's releases, newest first: when, by whom, what changed, and what came of it."""
    from ..plan import history
    from ..report.history_text import history_data, render_history
    from ..report.json_text import json_document
    from .site import site
    from .terminal import stdout

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        name = found.deployment.name
        hosts = history(found.deployment, found.facts, found.unreachable, found.unknown)
        console = stdout()
        if output == "json":
            console.write(json_document(history_data(name, hosts)))
        else:
            console.write(
                render_history(name, hosts, colour=console.colour, width=console.width, verbose=verbose)
            )
        return found.code
