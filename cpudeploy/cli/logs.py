"""`cpudeploy logs`: what a model's server prints."""

from __future__ import annotations

from pathlib import Path

import click

from .options import inventory_option, limit_option, playbooks_option, sudo_option


@click.command("logs")
@click.argument("model")
@inventory_option
@limit_option
@playbooks_option
@sudo_option
@click.option("-n", "--tail", default=100, show_default=True, type=click.IntRange(0, 100_000), help="Lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on until interrupted (one host).")
def command(
    model: str,
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    tail: int,
    follow: bool,
) -> int:
    """Show the last log lines of MODEL on each of its hosts."""
    from ..errors import UsageError
    from ..execute import EngineClient
    from .running import Running, ask_each, instances_of
    from .site import site
    from .terminal import stdout

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass, model=model) as found:
        asked = instances_of(found, model)
        several = len(asked.instances) > 1
        if follow and several:
            raise UsageError("--follow takes one host", do=f"add --limit {asked.instances[0].host}")
        console = stdout()

        def show(instance: Running) -> None:
            connection = found.connections[instance.host]
            with EngineClient(connection.dial_engine) as engine:
                for line in engine.logs(instance.container, tail=tail, follow=follow):
                    text = found.secrets.redact(line)
                    console.write(f"{instance.host}  {text}" if several else text)

        return ask_each(asked, show)
