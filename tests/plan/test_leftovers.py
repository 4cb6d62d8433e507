"""What an interrupted change left behind, told apart and cleared away by the next one."""

from __future__ import annotations

import pytest

from cpudeploy.types.plan import Change
from tests.factories import deployment
from tests.plan.test_converge import bring, killed_after, plan_for
from tests.plan.test_replace import NAME, begun, change_for, ids, left, open_to_people, wish
from tests.simulated import SimulatedHost


def interrupted_after(operation: str) -> SimulatedHost:
    """A change from beside whose controller died, and whose guard is lost."""
    host = SimulatedHost(begun())
    upgrade = plan_for(wish("beside", context=4096), begun())
    killed_after(upgrade, host, ids(upgrade.hosts["one"].changes[0]).index(operation) + 1)
    left(host, "lost")
    return host


def dark_in(change: Change, host: SimulatedHost) -> list[str]:
    """Operations after which nobody serves people."""
    dark = []
    for operation in change.operations:
        host.perform(operation, lambda event: None)
        if not open_to_people(host):
            dark.append(operation.id)
    return dark


def test_what_served_serves_again_before_the_next_one_is_loaded_also_without_its_record():
    for recorded in (True, False):
        host = interrupted_after("unpublish old")
        if not recorded:
            del host.state["releases"]["rag"][host.facts().containers[f"{NAME}_old"].mark.release]
        dark = dark_in(change_for(wish("beside", context=1024), host.facts()), host)
        assert not {"gate beside", "create", "start"} & set(dark), recorded
        assert open_to_people(host) == [NAME]


def test_a_removal_that_was_interrupted_leaves_something_to_be_removed_until_all_is_gone():
    host = SimulatedHost(begun())
    (removal,) = plan_for(deployment(), host.facts()).hosts["one"].changes
    for operation in removal.operations[:-1]:
        host.perform(operation, lambda event: None)
        assert not plan_for(deployment(), host.facts()).empty, operation.id
    host.perform(removal.operations[-1], lambda event: None)
    assert plan_for(deployment(), host.facts()).empty


@pytest.mark.parametrize("state", ["serves", "down", "unproven", "with a leftover"])
def test_a_container_whose_record_is_lost_is_recorded_and_serves_after_one_apply(state: str):
    host = SimulatedHost(begun())
    if state == "down":
        host.container(NAME).update(running=False, status="exited")
    elif state == "unproven":
        host.container(NAME)["restart_policy"] = "no"
    elif state == "with a leftover":
        host.state["containers"][f"{NAME}_old"] = {**host.container(NAME), "id": "x", "running": False}
    host.state["releases"] = {}
    created = host.container(NAME)["id"]
    assert bring(wish(context=2048), host).status == "done"
    assert plan_for(wish(context=2048), host.facts()).empty
    assert open_to_people(host) == [NAME]
    assert host.container(NAME)["id"] == created
    (release,) = host.facts().releases["rag"].values()
    assert list(release["proven"]) == [NAME]
