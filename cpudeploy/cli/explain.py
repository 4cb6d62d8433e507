"""`cpudeploy explain`: every number a model gets, with its reason."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ERROR, OK, UNREACHABLE, worst
from ..types.deployment import Deployment, Positions
from ..types.plan import Plan
from .options import (
    exclude,
    facts_option,
    format_option,
    inventory_option,
    limit_option,
    model_named,
    playbooks_option,
    repack_option,
    sudo_option,
)


@click.command("explain")
@click.argument("model", default="", callback=model_named)
@inventory_option
@limit_option
@playbooks_option
@sudo_option
@repack_option
@facts_option("Explain what was recorded by `facts -o DIR`: nobody is asked.")
@format_option("text", "json")
def command(
    model: str,
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    repack: bool,
    facts: Path | None,
    output: str,
) -> int:
    """Tell where the numbers of MODEL (or of all) come from: cores, threads, memory. Changes nothing."""
    from .deciding import decide, plan_of_records
    from .site import read_manifest, site

    if facts is not None:
        exclude("--facts", {"--ask-sudo-pass": ask_sudo_pass})
        manifest, deployment, _ = read_manifest(inventory, playbooks, limit, ask_sudo=False)
        plan = plan_of_records(manifest, deployment, inventory, facts, repack=repack)
        return _tell(plan, deployment, manifest.positions, model, output)
    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass, model=model) as found:
        plan = decide(found, inventory, repack=repack)
        return _tell(plan, found.deployment, found.manifest.positions, model, output)


def _tell(plan: Plan, deployment: Deployment, positions: Positions, model: str, output: str) -> int:
    """Print it; 1 where something has no numbers, 4 where a host was not reached."""
    from ..plan.explain import explanation
    from ..report.explain_text import render_explanation
    from ..report.json_text import json_document
    from .site import hosts_of
    from .terminal import stdout

    hosts = hosts_of(deployment, model) if model else set(plan.hosts)
    told = explanation(plan, deployment, positions, model)
    console = stdout()
    if output == "json":
        console.write(json_document(told))
    else:
        console.write(render_explanation(told, colour=console.colour, width=console.width))
    mine = [plan.hosts[host] for host in hosts]
    return worst(
        [
            *(UNREACHABLE for host in mine if host.unreachable),
            *(ERROR for host in mine if host.unknown or host.unplanned or host.partial),
            OK,
        ]
    )
