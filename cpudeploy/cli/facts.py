"""`cpudeploy facts`: what the hosts are, as read from them now."""

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


@click.command("facts")
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
    """Read every host's facts and show them."""
    from ..report.facts_text import all_facts_data, render_facts
    from ..report.json_text import json_document
    from .site import site
    from .terminal import stdout
    from .troubles import tell

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        console = stdout()
        if output == "json":
            console.write(json_document(all_facts_data(found.facts, found.unreachable, found.unknown)))
        else:
            for facts in found.facts.values():
                console.write(
                    render_facts(facts, colour=console.colour, width=console.width, verbose=verbose)
                )
        tell(found.troubles)
        return found.code
