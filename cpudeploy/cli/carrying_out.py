"""A plan shown, carried out and reported. Shared by `apply` and `destroy`.

The plan goes through its JSON form first, always: what is executed is what a saved plan would hold.
Whether anybody reads what is said here changes nothing about what is done.
"""

from __future__ import annotations

import click

from ..errors import ConnectError
from ..execute import HostTarget, Target, execute
from ..report.json_text import json_line
from ..report.live import live
from ..report.outcome_text import end_code, outcome_data, render_outcome
from ..report.plan_text import render_plan
from ..transport import connect
from ..types.base import from_json, to_json
from ..types.facts import Question
from ..types.plan import HostPlan, Plan
from .site import Site
from .terminal import stdout


def carry_out(site: Site, decided: Plan, *, json: bool, verbose: bool) -> int:
    """Execute and report; returns the exit code. `json`: a line an event, then the outcome on the last."""
    plan = from_json(to_json(decided), Plan)
    command = click.get_current_context().info_name or "apply"
    console = stdout()
    if not json:
        console.try_write(
            render_plan(
                plan, colour=console.colour, width=console.width, verbose=verbose, facts_s=site.facts_s
            )
        )
        console.try_write("")

    def open_target(host_plan: HostPlan) -> Target:
        name = host_plan.host.name
        connection = site.connections.get(name)
        if connection is None:
            raise ConnectError("not connected", where=name)
        asked = tuple(Question(kind=kind, key=key, arg=arg) for kind, key, arg in host_plan.questions)  # type: ignore[arg-type]
        return HostTarget(
            connection,
            plan=plan,
            secrets=site.secrets,
            questions=asked,
            command=command,
            reconnect=lambda: connect(connection.host, site.secrets),
        )

    with live(console, plan, json=json) as progress:
        outcome = execute(plan, open_target, progress.tell)
    if json:
        console.try_write(json_line(outcome_data(outcome, plan)))
    else:
        console.try_write(render_outcome(outcome, plan, colour=console.colour, width=console.width))
    return end_code(outcome, plan)
