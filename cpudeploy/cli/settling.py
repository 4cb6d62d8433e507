"""Hosts that an earlier apply left in the middle: settled before a plan is made to be carried out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ..errors import CpudeployError, Locked
from ..execute import HostTarget, settle, unsettled
from ..plan.questions import questions
from ..types.plan import Plan
from ..types.safety import InFlight
from .site import Site, wait_for_all
from .troubles import note


def put_right(site: Site, origin: str) -> None:
    """Settle what is unsettled; `site` has the new facts then. A host where somebody is at work after all is
    left as it is, and so is one on which that does not work: carrying out will say why."""
    deployment = site.deployment
    waiting = {name: facts for name, facts in site.facts.items() if unsettled(facts)}
    if not waiting:
        return
    nothing = Plan(deployment=deployment.name, base=deployment.base, origin=origin, hosts={})

    def one(name: str) -> CpudeployError | None:
        asked = questions(deployment, deployment.hosts[name])
        target = HostTarget(
            site.connections[name], plan=nothing, secrets=site.secrets, questions=asked, command="settle"
        )
        try:
            site.facts[name] = settle(target)
        except CpudeployError as error:
            return error
        return None

    with ThreadPoolExecutor(max_workers=len(waiting)) as pool:
        ends = {name: pool.submit(one, name) for name in waiting}
        wait_for_all(ends, "still putting right what an apply left in the middle on")
    for name, before in waiting.items():
        error, left = ends[name].result(), before.in_flight
        ended = "an apply ended in the middle"
        if isinstance(left, InFlight):
            ended = f"an apply by {left.holder} ended in the middle of {left.subject}"
        if error is None and left is None and not before.guards:
            continue  # it only left the host held, with nothing under way
        if error is None:
            note(name, f"{ended}; what waited to be put back is put back")
        elif not isinstance(error, Locked):
            note(name, f"{ended}, and that can't be put right now: {error.sentence}")
