"""Hosts that an earlier apply left in the middle: settled before a plan is made to be carried out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ..errors import CpudeployError
from ..execute import HostTarget, settle, unsettled
from ..plan.questions import questions
from ..types.plan import Plan
from ..types.safety import InFlight
from .site import Site, wait_for_all
from .troubles import note


def put_right(site: Site, origin: str) -> None:
    """Settle what is unsettled; `site` has the new facts then. A host on which that does not work is left
    as it is: carrying out will say why."""
    deployment = site.deployment
    waiting = [name for name, facts in site.facts.items() if unsettled(facts)]
    if not waiting:
        return
    found = {name: site.facts[name].in_flight for name in waiting}
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
    for name, end in ends.items():
        error = end.result()
        left = found[name]
        what = f" of {left.subject}" if isinstance(left, InFlight) else ""
        if error is None:
            note(name, f"an apply ended here in the middle{what}; this plan is of what stands there now")
        else:
            note(
                name,
                f"an apply ended here in the middle{what}, and that can't be put right now: {error.what}",
            )
