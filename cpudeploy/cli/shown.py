"""A plan on stdout, as it was asked for. In: a plan and how to print it. Out: nothing."""

from __future__ import annotations

from ..report.json_text import plan_document
from ..report.plan_markdown import render_plan_markdown
from ..report.plan_text import render_plan
from ..types.plan import Plan
from .terminal import stdout


def show_plan(plan: Plan, *, output: str, verbose: bool, facts_s: float | None) -> None:
    """`output`: text, json or markdown. `facts_s`: seconds the facts took, None where nobody was asked."""
    console = stdout()
    if output == "json":
        console.write(plan_document(plan))
    elif output == "markdown":
        console.write(render_plan_markdown(plan))
    else:
        console.write(
            render_plan(plan, colour=console.colour, width=console.width, verbose=verbose, facts_s=facts_s)
        )
