"""Who comes right after a controller was killed: its guards are at work, and what stands there is about to change."""

from __future__ import annotations

import pytest

from cpudeploy.errors import Locked
from cpudeploy.execute import settle, unsettled
from tests.factories import cores, deployment, facts, placement
from tests.plan.test_converge import apply, killed_after, plan_for, serving
from tests.simulated import SimulatedHost


class BeingLeft(SimulatedHost):
    """A host as it is in the seconds after a kill: the lease is held until the guards have fired, and who asks
    for it waits for that."""

    def lock(self, plan: str) -> None:
        self.die()
        super().lock(plan)


@pytest.mark.parametrize("way", ["beside", "stop-first"])
def test_one_apply_is_enough_also_while_guards_still_put_things_back(way: str):
    first = SimulatedHost(facts(cores=cores(8)))
    apply(plan_for(deployment(placement(context=2048)), first.facts()), first)
    wanted = deployment(placement(replace=way, context=4096))
    upgrade = plan_for(wanted, first.facts())
    for kept in range(1, len(upgrade.hosts["one"].changes[0].operations)):
        host = BeingLeft(first.facts())
        killed_after(upgrade, host, kept)
        SimulatedHost.lock(host, upgrade.id)  # by whoever waits there for the guards
        if unsettled(host.facts()):
            settle(host)
        assert apply(plan_for(wanted, host.facts()), host).status in ("done", "unchanged"), kept
        assert serving(host) == {"rag_smol_0": True}


def test_who_is_at_work_is_not_disturbed():
    host = SimulatedHost(facts(cores=cores(8)))
    killed_after(plan_for(deployment(placement()), host.facts()), host, 3)
    host.lock("of another")
    held = host.facts()
    with pytest.raises(Locked):
        settle(host)
    assert host.facts() == held


def test_a_lease_that_expired_does_not_stay_where_nothing_is_to_be_done():
    host = SimulatedHost(facts())
    host.lock("of one who is no more")
    assert not unsettled(host.facts())  # somebody may be at work
    host.state["lease"]["expired"] = True
    assert unsettled(host.facts())
    settle(host)
    assert host.facts().lease is None
