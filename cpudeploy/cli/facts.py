"""`cpudeploy facts`: what the hosts are, as read from them now."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import OK, UNREACHABLE
from .options import (
    format_option,
    inventory_argument,
    limit_option,
    playbooks_option,
    sudo_option,
)


@click.command("facts")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@format_option("text", "json")
def command(
    inventory: Path, limit: tuple[str, ...], playbooks: tuple[Path, ...], ask_sudo_pass: bool, output: str
) -> int:
    """Read every host's facts and show them."""
    from ..report.facts_text import facts_data, render_facts
    from ..report.json_text import json_document
    from .site import site
    from .terminal import stderr, stdout

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        console = stdout()
        if output == "json":
            console.write(json_document({name: facts_data(facts) for name, facts in found.facts.items()}))
        else:
            for facts in found.facts.values():
                console.write(render_facts(facts, colour=console.colour, width=console.width))
        for name, why in found.unreachable.items():
            stderr().write(f"{name}: {why}")
        return UNREACHABLE if found.unreachable else OK
