"""`cpudeploy facts`: what the hosts are, as read from them now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ERROR, OK, worst
from .options import (
    format_option,
    inventory_argument,
    limit_option,
    playbooks_option,
    sudo_option,
    verbose_option,
)

if TYPE_CHECKING:
    from .site import Site


@click.command("facts")
@inventory_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Record them in DIR, with what registries and Hubs say, for `plan --facts DIR`.",
)
@click.option(
    "--measure", is_flag=True, help="Measure how fast each host reads memory (seconds of full load)."
)
@format_option("text", "json")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    folder: Path | None,
    measure: bool,
    output: str,
) -> int:
    """Read every host's facts and show them, or record them for planning elsewhere."""
    from ..report.facts_text import all_facts_data, render_facts
    from ..report.json_text import json_document
    from .site import site
    from .terminal import stdout
    from .troubles import tell

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        if measure:
            from .measuring import measure as measure_all

            measure_all(found)
        console = stdout()
        if folder is not None:
            code = _record(found, folder)
            tell(found.troubles)
            return worst([code, found.code])
        if output == "json":
            console.write(json_document(all_facts_data(found.facts, found.unreachable, found.unknown)))
        else:
            for facts in found.facts.values():
                console.write(
                    render_facts(facts, colour=console.colour, width=console.width, verbose=verbose)
                )
        tell(found.troubles)
        return found.code


def _record(found: Site, folder: Path) -> int:
    """Write what the hosts told, then what the outside world says. 1 where something of a model was not to be
    had: all else is recorded."""
    from ..plan import plannable
    from ..plan.recorded import records_of, unrecorded
    from ..types.records import Records
    from .deciding import resolve_for
    from .records import write_facts, write_records
    from .site import narrowed
    from .terminal import stderr, stdout

    for path in write_facts(folder, found.facts.values()):
        stdout().write(str(path))
    playbooks = found.manifest.playbooks
    wanted = plannable(narrowed(found.deployment, found.facts))
    resolved, missing = resolve_for(found)
    records = records_of(wanted, playbooks, resolved)
    lacking = unrecorded(wanted, resolved)
    if records != Records() or not lacking:
        stdout().write(str(write_records(folder, records)))
    told = dict.fromkeys(
        f"{key.partition('@')[0]}: its {what} can't be recorded: {missing[key]}"
        for key, what in lacking.items()
    )
    for text in told:
        stderr().try_write(text)
    return ERROR if lacking else OK
