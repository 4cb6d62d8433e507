"""`cpudeploy validate`: is the manifest right? Touches no host and resolves no secret."""

from __future__ import annotations

from pathlib import Path

import click

from ..manifest import load
from .options import inventory_argument, playbooks_option
from .terminal import stdout


@click.command("validate")
@inventory_argument
@playbooks_option
def command(inventory: Path, playbooks: tuple[Path, ...]) -> None:
    """Check the manifest and its playbooks; every problem is shown at once."""
    manifest = load(inventory, playbooks)
    deployment = manifest.deployment
    hosts, models = len(deployment.hosts), len({p.model for p in deployment.placements})
    for warning in manifest.warnings:
        stdout().write(f"{warning.where}: warning: {warning.what}")
    stdout().write(
        f"{inventory}: valid · deployment {deployment.name} · "
        f"{hosts} {'host' if hosts == 1 else 'hosts'} · {models} {'model' if models == 1 else 'models'}"
    )
