"""`cpudeploy logs`: what a model's server prints. Never shows its API key, nor lets it drive the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ..errors import SecretError
from .options import inventory_option, limit_option, model_named, playbooks_option, sudo_option
from .running import Running
from .site import Site


@click.command("logs")
@click.argument("model", callback=model_named)
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
    from .running import ask_each, instances_of
    from .site import site
    from .terminal import stdout

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass, model=model) as found:
        asked = instances_of(found, model)
        several = len(asked.instances) > 1
        if follow and several:
            raise UsageError("--follow takes one host", do=f"add --limit {asked.instances[0].host}")
        console = stdout()

        def show(instance: Running) -> None:
            for line in log_lines(found, instance, tail=tail, follow=follow):
                console.write(f"{instance.host}  {line}" if several else line)

        return ask_each(asked, show)


def log_lines(site: Site, instance: Running, *, tail: int, follow: bool) -> Iterator[str]:
    """Its last `tail` lines, and with `follow` those to come: redacted, safe for a terminal.

    Raises EngineError or ConnectError when they can't be had.
    """
    from ..execute import EngineClient
    from ..report.text import clean
    from .troubles import note

    if instance.api_key is not None:
        try:
            site.secrets.get(instance.api_key)  # only what is known can be redacted
        except SecretError as error:
            note(instance.host, f"the key can't be hidden, should the log hold it: {error.sentence}")
    connection = site.connections[instance.host]
    with EngineClient(connection.dial_engine) as engine:
        for line in engine.logs(instance.container, tail=tail, follow=follow):
            yield clean(site.secrets.redact(line))
