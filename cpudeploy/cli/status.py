"""`cpudeploy status`: what serves where, by the hosts' own facts."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ERROR, OK, worst
from .options import format_option, inventory_argument, limit_option, playbooks_option, sudo_option


@click.command("status")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@format_option("text", "json")
def command(
    inventory: Path, limit: tuple[str, ...], playbooks: tuple[Path, ...], ask_sudo_pass: bool, output: str
) -> int:
    """Show every model's state. Exits 1 when one of them does not serve."""
    from ..plan.status import status_rows
    from ..report.json_text import json_document
    from ..report.status_text import render_status, status_data
    from .site import site
    from .terminal import stdout

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        rows = status_rows(found.deployment, found.facts, found.unreachable, found.unknown)
        console = stdout()
        if output == "json":
            console.write(json_document(status_data(found.deployment.name, rows)))
        else:
            console.write(render_status(rows, colour=console.colour, width=console.width))
        well = all(row.state in ("serving", "unlisted") for row in rows)
        return worst([found.code, OK if well else ERROR])
