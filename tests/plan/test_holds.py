"""What failed its gate is left alone until it is another or somebody insists; what served before goes on."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.execute import execute
from cpudeploy.plan import make_plan
from cpudeploy.types.base import SecretRef, to_data
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.operation import Record
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import HostPlan, Plan
from cpudeploy.types.release import Instance, identity
from cpudeploy.types.safety import Hold
from tests.factories import deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost

GOOD = placement(context=2048, cpus="cores:2")
BAD = placement(context=4096, cpus="cores:2")
AT = "2027-01-15T06:00:00Z"
"""Two hours before the clock of the factories' host."""
NAME = "rag_smol_0"


def planned(host: SimulatedHost, wanted: Deployment, *, retry: bool = False, **known: object) -> Plan:
    told = resolved(*wanted.placements, **known)
    return make_plan(wanted, playbooks(), {"one": host.facts()}, told, origin="here", retry=retry)


def apply(host: SimulatedHost, plan: Plan) -> HostOutcome:
    return execute(plan, lambda _: host, lambda event: None).hosts["one"]


def recorded(plan: HostPlan) -> dict[str, Instance]:
    """What the plan's release says."""
    operations = (each for change in plan.changes for each in change.operations)
    return next(each for each in operations if isinstance(each, Record)).instances


def hold(host: SimulatedHost, wanted: Deployment) -> None:
    """What is `wanted` failed its gate here two hours ago, and was undone."""
    its = recorded(planned(host, wanted).hosts["one"])[NAME]
    failed = Hold(
        wanted=identity(its),
        release="0002-bbbbbbbb",
        at=AT,
        what=f"{NAME} never got ready",
        cause="the context is too long",
        do="shorten it",
    )
    host.state["held"] = {"rag": {NAME: to_data(failed)}}


@pytest.fixture
def serving() -> SimulatedHost:
    host = SimulatedHost(facts(clock=1_800_000_000))
    assert apply(host, planned(host, deployment(GOOD))).status == "done"
    return host


def test_what_failed_is_not_tried_again_and_the_plan_says_why(serving: SimulatedHost):
    hold(serving, deployment(BAD))
    plan = planned(serving, deployment(BAD))
    assert plan.empty
    told = plan.hosts["one"].held["smol"]
    for part in (
        "2 h ago",
        "0002-bbbbbbbb",
        "never got ready",
        "context is too long",
        "shorten it",
        "--retry",
    ):
        assert part in told
    assert plan.hosts["one"].retained == ()
    assert plan.hosts["one"].allocations == ()


def test_where_nothing_serves_nothing_is_tried_either():
    host = SimulatedHost(facts())
    hold(host, deployment(BAD))
    plan = planned(host, deployment(BAD)).hosts["one"]
    assert not [change for change in plan.changes if change.step in ("container", "image", "weights")]
    assert list(plan.held) == ["smol"]


def test_somebody_who_insists_tries_it(serving: SimulatedHost):
    hold(serving, deployment(BAD))
    plan = planned(serving, deployment(BAD), retry=True)
    assert not plan.hosts["one"].held
    assert apply(serving, plan).status == "done"


@pytest.mark.parametrize("changes", [{"context": 1024}, {"env": {"A": "b"}}, {"args": ("--no-warmup",)}])
def test_another_line_of_the_manifest_is_tried(serving: SimulatedHost, changes: dict):
    hold(serving, deployment(BAD))
    other = deployment(msgspec.structs.replace(BAD, **changes))
    assert not planned(serving, other).hosts["one"].held
    assert not planned(serving, other).empty


def test_another_image_behind_the_tag_is_tried(serving: SimulatedHost):
    hold(serving, deployment(BAD))
    image = msgspec.structs.replace(resolved(BAD).images["llama"], digest="sha256:" + "e" * 64)
    assert not planned(serving, deployment(BAD), images={"llama": image}).hosts["one"].held


def test_another_key_is_tried_and_the_same_is_not(serving: SimulatedHost):
    wanted = deployment(msgspec.structs.replace(BAD, api_key=SecretRef(kind="from_env", name="KEY")))
    hold(serving, wanted)
    key = "one/rag/smol/0/api_key"
    assert planned(serving, wanted, held_secrets={key: "same"}).hosts["one"].held
    assert not planned(serving, wanted, held_secrets={key: "changed"}).hosts["one"].held


def test_the_former_line_serves_on_as_if_nothing_was(serving: SimulatedHost):
    hold(serving, deployment(BAD))
    plan = planned(serving, deployment(GOOD))
    assert plan.empty
    assert not plan.hosts["one"].held


def test_what_goes_on_is_kept_up_though_the_new_is_held(serving: SimulatedHost):
    hold(serving, deployment(BAD))
    serving.container(NAME).update(running=False, status="exited", exit_code=1)
    plan = planned(serving, deployment(BAD))
    (change,) = plan.hosts["one"].changes
    assert change.action == "gate"
    assert apply(serving, plan).status == "done"
    found = serving.facts().containers[NAME]
    assert found.running and found.mark and found.mark.release == "0001-" + found.mark.release[5:]
    assert planned(serving, deployment(BAD)).empty


def test_a_revert_that_got_stuck_is_finished_though_the_new_is_held(serving: SimulatedHost):
    served = serving.facts().containers[NAME]
    hold(serving, deployment(BAD))
    serving.state["containers"][f"{NAME}_old"] = serving.state["containers"].pop(NAME)
    serving.container(f"{NAME}_old").update(running=False, status="exited")
    apply(serving, planned(serving, deployment(BAD)))
    found = serving.facts().containers[NAME]
    assert (found.running, found.restart_policy, found.memory) == (True, "unless-stopped", served.memory)
    assert planned(serving, deployment(BAD)).empty


def test_the_others_go_on_and_their_release_says_what_really_serves(serving: SimulatedHost):
    hold(serving, deployment(BAD))
    other = placement("other", port=8200, cpus="cores:1")
    before = recorded_now(serving)
    apply(serving, planned(serving, deployment(BAD, other)))
    assert set(serving.facts().containers) == {NAME, "rag_other_0"}
    assert recorded_now(serving)[NAME] == before[NAME]
    assert "rag_other_0" in recorded_now(serving)


def recorded_now(host: SimulatedHost) -> dict:
    releases = host.state["releases"]["rag"]
    return releases[max(releases)]["instances"]


@given(
    wishes=st.lists(
        st.tuples(st.sampled_from([512, 1024, 2048]), st.booleans(), st.booleans()), min_size=1, max_size=8
    )
)
@settings(max_examples=15, deadline=None)
def test_whatever_is_wished_for_what_served_last_serves_and_nothing_fails_twice_in_a_row(
    wishes: list[tuple[int, bool, bool]],
):
    """A wish: its context, whether it fails its gate, whether somebody insists."""
    host = SimulatedHost(facts(), failing=("broken",))
    good: int | None = None
    failed: int | None = None
    for context, broken, insists in wishes:
        wanted = deployment(
            placement(context=context, cpus="cores:2", served_name="broken" if broken else "fine")
        )
        before = len(host.log)
        outcome = apply(host, planned(host, wanted, retry=insists))
        if broken and context == failed and not insists:
            assert outcome.status == "unchanged"
            assert len(host.log) == before
        elif broken:
            assert outcome.status == "reverted"
            failed = context  # the last that did is held, and no other
        else:
            assert outcome.status in ("done", "unchanged")
            good = context
        serving = {
            name: recorded_as(host, found.mark.release)[name]["context"]
            for name, found in host.facts().containers.items()
            if found.mark and found.running and found.restart_policy == "unless-stopped"
        }
        assert serving == ({} if good is None else {NAME: good})
        assert set(host.facts().containers) == set(serving)


def recorded_as(host: SimulatedHost, release: str) -> dict:
    return host.state["releases"]["rag"][release]["instances"]
