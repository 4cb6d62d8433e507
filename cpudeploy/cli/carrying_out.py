"""A plan shown, carried out and reported. Shared by `apply` and `destroy`.

The plan goes through its JSON form first, always: what is executed is what a saved plan would hold.
Whether anybody reads what is said here changes nothing about what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import click
import msgspec

from ..execute import HostTarget, Target, execute
from ..report.json_text import json_line
from ..report.live import live
from ..report.outcome_markdown import render_outcome_markdown
from ..report.outcome_text import end_code, outcome_data, render_outcome
from ..report.plan_text import render_plan
from ..secrets import Secrets
from ..transport import Connection, connect
from ..types.base import from_json, to_json
from ..types.facts import Question
from ..types.outcome import Outcome
from ..types.plan import HostPlan, Plan
from .terminal import stderr, stdout

Reach = Callable[[HostPlan], Connection]
"""An open connection to a host of the plan. Raises ConnectError. Called from several threads."""


@dataclass(frozen=True)
class Carried:
    """What became of a plan."""

    outcome: Outcome
    plan: Plan

    @property
    def code(self) -> int:
        """The exit code that tells it."""
        return end_code(self.outcome, self.plan)

    @property
    def to_be_seen_again(self) -> tuple[str, ...]:
        """Hosts where all was done that could be planned, and more is wanted that can be seen only now. None
        where somebody asked to stop."""
        ends = self.outcome.hosts
        if any(end.status == "interrupted" for end in ends.values()):
            return ()
        return tuple(
            name
            for name, host in self.plan.hosts.items()
            if host.partial and ends[name].status in ("done", "unchanged")
        )

    def without(self, hosts: Collection[str]) -> Carried:
        """As if these hosts had not been among it."""
        rest = self.plan.hosts.keys() - set(hosts)
        ends = {name: end for name, end in self.outcome.hosts.items() if name in rest}
        return Carried(msgspec.structs.replace(self.outcome, hosts=ends), _narrowed(self.plan, rest))

    def with_(self, others: Carried) -> Carried:
        """Both as one, to be told."""
        hosts = {**others.outcome.hosts, **self.outcome.hosts}
        outcome = msgspec.structs.replace(self.outcome, hosts=hosts)
        plans = {**others.plan.hosts, **self.plan.hosts}
        return Carried(outcome, msgspec.structs.replace(self.plan, hosts=plans))


def carry_out(
    decided: Plan,
    reach: Reach,
    secrets: Secrets,
    *,
    output: str,
    verbose: bool,
    facts_s: float | None = None,
    only: Collection[str] | None = None,
    retry: bool = False,
    told: bool = False,
    besides: Carried | None = None,
) -> Carried:
    """Execute and report. `only`: hosts to do it on, None: on all of the plan.
    `retry`: also what this plan failed with before. `told`: the plan was shown already.
    `besides`: what an earlier round came to on other hosts, which is part of how it ends.

    `output`: `text`; `json`, a line an event, then the outcome on the last; `markdown`, one comment at the
    end, progress on stderr meanwhile.
    """
    plan = from_json(to_json(decided), Plan)
    shown = plan if only is None else _narrowed(plan, only)
    command = click.get_current_context().info_name or "apply"
    console = stdout()
    if output == "text" and not told:
        console.try_write(
            render_plan(shown, colour=console.colour, width=console.width, verbose=verbose, facts_s=facts_s)
        )
        console.try_write("")

    def open_target(host_plan: HostPlan) -> Target:
        asked = tuple(Question(kind=kind, key=key, arg=arg) for kind, key, arg in host_plan.questions)  # type: ignore[arg-type]
        connection = reach(host_plan)
        return HostTarget(
            connection,
            plan=plan,
            secrets=secrets,
            questions=asked,
            command=command,
            reconnect=lambda: connect(connection.host, secrets),
        )

    with live(stderr() if output == "markdown" else console, shown, json=output == "json") as progress:
        outcome = execute(plan, open_target, progress.tell, only=only, retry=retry)
    ended = Carried(outcome, shown)
    if besides is not None:
        ended = ended.with_(besides)
        outcome, shown = ended.outcome, ended.plan
    if output == "json":
        console.try_write(json_line(outcome_data(outcome, shown)))
    elif output == "markdown":
        console.try_write(render_outcome_markdown(outcome, shown, command=command))
    else:
        console.try_write(
            render_outcome(outcome, shown, colour=console.colour, width=console.width, command=command)
        )
    return ended


def _narrowed(plan: Plan, hosts: Collection[str]) -> Plan:
    """The plan as if it had these hosts alone: to be shown only, for its id is another."""
    return msgspec.structs.replace(
        plan, hosts={name: host for name, host in plan.hosts.items() if name in hosts}
    )
