"""`cpudeploy recommend`: which quantisation, context and parallel a host has room for, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ERROR, OK, worst
from .options import (
    exclude,
    facts_option,
    format_option,
    inventory_option,
    limit_option,
    model_named,
    playbooks_option,
    sudo_option,
)

if TYPE_CHECKING:
    from ..types.recommendation import Recommendation


@click.command("recommend")
@click.argument("model", required=False, callback=model_named)
@inventory_option
@limit_option
@playbooks_option
@sudo_option
@click.option("--quant", metavar="Q4_K_M", help="Compare with this quantisation, not the manifest's.")
@click.option(
    "--context", type=click.IntRange(1, 100_000_000), help="Tokens a request, instead of the manifest's."
)
@click.option(
    "--parallel", type=click.IntRange(1, 1024), help="Requests at a time, instead of the manifest's."
)
@click.option(
    "--measure", is_flag=True, help="Measure how fast each host reads memory (seconds of full load)."
)
@facts_option("Work from what `facts -o DIR` recorded: nobody is asked.")
@format_option("text", "json")
def command(
    model: str | None,
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    quant: str | None,
    context: int | None,
    parallel: int | None,
    measure: bool,
    facts: Path | None,
    output: str,
) -> int:
    """Tell what each host has room for of MODEL, and how fast it would be.

    MODEL is one of the manifest (all of them when left out), or a Hub repository that is not in it, tried on
    every host beside what is there: org/name-GGUF by llama.cpp, org/name by vLLM where the manifest has it.
    """
    from .measuring import measure as measure_all
    from .recommending import Question, ask_hosts, ask_records
    from .site import read_manifest, site
    from .troubles import tell

    question = Question(model=model or "", quant=quant, context=context, parallel=parallel)
    if facts is not None:
        exclude("--facts", {"--measure": measure, "--ask-sudo-pass": ask_sudo_pass})
        manifest, deployment, _ = read_manifest(inventory, playbooks, limit, ask_sudo=False)
        told = ask_records(manifest, deployment, question, facts)
        _show(told, deployment.name, output)
        return _code(told)
    placed = "" if question.repository else question.model
    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass, model=placed) as found:
        if measure:
            measure_all(found)
        told = ask_hosts(found, question)
        _show(told, found.deployment.name, output)
        tell(found.troubles)
        return worst([_code(told), found.code])


def _show(told: Sequence[Recommendation], deployment: str, output: str) -> None:
    from ..report.json_text import json_document
    from ..report.recommend_text import recommend_data, render_recommendations
    from .terminal import stdout

    console = stdout()
    if output == "json":
        console.write(json_document(recommend_data(deployment, told)))
    else:
        console.write(render_recommendations(told, colour=console.colour, width=console.width))


def _code(told: Sequence[Recommendation]) -> int:
    """An error only where nothing at all could be told of what was asked."""
    return ERROR if told and all(each.problem for each in told) else OK
