"""A plan shown, carried out and reported. Shared by `apply` and `destroy`.

The plan goes through its JSON form first, always: what is executed is what a saved plan would hold.
"""

from __future__ import annotations

from ..errors import ConnectError
from ..execute import HostTarget, Target, execute
from ..report.json_text import json_document
from ..report.live import live
from ..report.outcome_text import exit_code, render_outcome
from ..report.plan_text import render_plan
from ..types.base import from_json, to_json
from ..types.facts import Question
from ..types.plan import HostPlan, Plan
from .site import Site
from .terminal import stdout


def carry_out(site: Site, decided: Plan, *, json: bool, verbose: bool) -> int:
    """Execute and report; returns the exit code."""
    plan = from_json(to_json(decided), Plan)
    console = stdout()
    if not json:
        console.write(
            render_plan(
                plan, colour=console.colour, width=console.width, verbose=verbose, facts_s=site.facts_s
            )
        )
        console.write("")

    def open_target(host_plan: HostPlan) -> Target:
        name = host_plan.host.name
        connection = site.connections.get(name)
        if connection is None:
            raise ConnectError(host_plan.unreachable or "not connected", where=name)
        asked = tuple(Question(kind=kind, key=key, arg=arg) for kind, key, arg in host_plan.questions)  # type: ignore[arg-type]
        return HostTarget(connection, plan=plan, secrets=site.secrets, questions=asked)

    with live(console, plan, json=json) as progress:
        outcome = execute(plan, open_target, progress.tell)
    if json:
        console.write(json_document(outcome))
    else:
        console.write(render_outcome(outcome, plan, colour=console.colour, width=console.width))
    return exit_code(outcome)
