"""Back to what an earlier release says, from what the host holds alone; and what the host tells of its past."""

from __future__ import annotations

from typing import Any

import pytest

from cpudeploy.execute import execute
from cpudeploy.plan import history, make_plan, rollback_plan
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Deployment, Placement
from cpudeploy.types.history import HistoryRelease
from cpudeploy.types.operation import Engine, Fetch, PullImage, Put
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import HostPlan, Plan
from tests.factories import DIGEST, deployment, facts, placement, playbooks, resolved
from tests.simulated import SimulatedHost

NAME = "rag_smol_0"
OTHER = placement("other", port=8200, cpus="cores:1")


def smol(**changes: Any) -> Placement:
    return placement(cpus="cores:2", **changes)


class Site:
    """A host and what was applied to it."""

    def __init__(self) -> None:
        self.host = SimulatedHost(facts())

    def plan(self, *wanted: Placement, origin: str = "here") -> Plan:
        known = resolved(*wanted)
        return make_plan(deployment(*wanted), playbooks(), {"one": self.host.facts()}, known, origin=origin)

    def apply(self, *wanted: Placement, ends: str = "done", origin: str = "here") -> str:
        """The id of the newest release afterwards."""
        assert self.carry_out(self.plan(*wanted, origin=origin)).status == ends
        return max(self.host.state["releases"]["rag"])

    def carry_out(self, plan: Plan) -> HostOutcome:
        return execute(plan, lambda _: self.host, lambda event: None).hosts["one"]

    def back(self, release: str = "", *manifest: Placement, **options: Any) -> Plan:
        wanted: Deployment = deployment(*manifest)
        return rollback_plan(
            wanted, playbooks(), {"one": self.host.facts()}, release=release, origin="here", **options
        )

    def shows(self) -> dict[str, HistoryRelease]:
        (told,) = history(deployment(), {"one": self.host.facts()})
        return {release.release: release for release in told.releases}

    @property
    def serving(self) -> dict[str, int]:
        """Container → its context, of those that serve."""
        releases = self.host.state["releases"]["rag"]
        return {
            name: releases[found.mark.release]["instances"][name]["context"]
            for name, found in self.host.facts().containers.items()
            if found.mark and found.running and found.restart_policy == "unless-stopped"
        }


@pytest.fixture
def site() -> Site:
    return Site()


def of(plan: Plan) -> HostPlan:
    return plan.hosts["one"]


def test_the_one_before_comes_back_without_anything_fetched(site: Site):
    site.apply(smol(context=2048))
    site.apply(smol(context=4096))
    plan = site.back()
    operations = [each for change in of(plan).changes for each in change.operations]
    assert not [each for each in operations if isinstance(each, Fetch)]
    assert not [
        each for each in operations if isinstance(each, Engine) and isinstance(each.request, PullImage)
    ]
    (change,) = of(plan).changes
    assert ("context", "4096", "2048") in {(diff.field, diff.before, diff.after) for diff in change.diff}
    assert site.carry_out(plan).status == "done"
    assert site.serving == {NAME: 2048}
    assert site.back(max(site.host.state["releases"]["rag"])).empty


def test_the_next_apply_brings_back_what_the_manifest_says(site: Site):
    site.apply(smol(context=2048))
    site.apply(smol(context=4096))
    site.carry_out(site.back())
    assert [change.action for change in of(site.plan(smol(context=4096))).changes] == ["update"]


def test_a_named_release_by_its_id_or_its_number(site: Site):
    first = site.apply(smol(context=1024))
    site.apply(smol(context=2048))
    site.apply(smol(context=4096))
    assert of(site.back(first)).changes == of(site.back("1")).changes
    site.carry_out(site.back(first))
    assert site.serving == {NAME: 1024}


def test_models_go_and_come_as_that_release_has_them(site: Site):
    first = site.apply(smol())
    both = site.apply(smol(), OTHER)
    site.carry_out(site.back(first, smol(), OTHER))
    assert set(site.serving) == {NAME}
    site.carry_out(site.back(both))
    assert set(site.serving) == {NAME, "rag_other_0"}


def test_a_model_that_was_taken_out_comes_back(site: Site):
    site.apply(smol(), OTHER)
    site.apply(smol())
    assert set(site.serving) == {NAME}
    site.carry_out(site.back())
    assert set(site.serving) == {NAME, "rag_other_0"}


def test_once_more_leads_to_where_it_came_from(site: Site):
    site.apply(smol(context=1024))
    site.apply(smol(context=2048))
    site.carry_out(site.back())
    site.carry_out(site.back())
    assert site.serving == {NAME: 2048}


def test_what_was_never_proven_is_passed_over(site: Site):
    site.apply(smol(context=1024))
    site.host.failing.add("broken")
    site.apply(smol(context=2048, served_name="broken"), ends="reverted")
    site.apply(smol(context=4096))
    assert "0001-" in of(site.back()).warnings[0]
    site.carry_out(site.back())
    assert site.serving == {NAME: 1024}


def test_a_release_that_failed_is_not_what_serves(site: Site):
    site.apply(smol(context=1024))
    site.apply(smol(context=2048))
    site.host.failing.add("broken")
    site.apply(smol(context=4096, served_name="broken"), ends="reverted")
    site.carry_out(site.back())
    assert site.serving == {NAME: 1024}


def test_one_that_fails_its_gate_leaves_what_serves(site: Site):
    site.apply(smol(context=1024, served_name="former"))
    site.apply(smol(context=2048))
    site.host.failing.add("former")
    assert site.carry_out(site.back()).status == "reverted"
    assert site.serving == {NAME: 2048}


@pytest.mark.parametrize("what", ["images", "trees"])
def test_what_was_pruned_is_named_and_nothing_is_planned(site: Site, what: str):
    first = site.apply(smol(context=1024))
    site.apply(smol(context=2048))
    if what == "images":
        site.host.state["images"].clear()
    else:
        site.host.state["weights"]["trees"].clear()
    for plan in (site.back(), site.back(first)):
        assert of(plan).changes == ()
        assert "pruned" in of(plan).unknown and "manifest of that time" in of(plan).unknown
        named = DIGEST[:19] if what == "images" else "huggingface org/name"
        assert named in of(plan).unknown
    assert site.shows()[first].missing


@pytest.mark.parametrize("asked", ["0042-nothing", "42", "x", "²"])
def test_an_unknown_release_names_those_there_are(site: Site, asked: str):
    first = site.apply(smol())
    assert first in of(site.back(asked)).unknown


def test_where_nothing_was_before_it_is_said(site: Site):
    assert "history" in of(site.back()).unknown
    site.apply(smol())
    assert "history" in of(site.back()).unknown


def test_a_damaged_record_is_passed_over_or_said(site: Site):
    site.apply(smol(context=1024))
    second = site.apply(smol(context=2048))
    site.apply(smol(context=4096))
    site.host.state["releases"]["rag"][second] = {"unknown": "not JSON"}
    assert "can't be read" in of(site.back(second)).unknown
    site.carry_out(site.back())
    assert site.serving == {NAME: 1024}
    assert site.shows()[second].unreadable


def test_the_key_is_the_one_of_today(site: Site):
    then, now = SecretRef(kind="from_env", name="THEN"), SecretRef(kind="from_env", name="NOW")
    site.apply(smol(context=1024, api_key=then))
    site.apply(smol(context=2048, api_key=now))

    def key(*manifest: Placement) -> set[object]:
        changes = of(site.back("", *manifest)).changes
        return {each.content for change in changes for each in change.operations if isinstance(each, Put)}

    assert key(smol(api_key=now)) == {now}
    assert key() == {then}


def test_another_origins_containers_stay(site: Site):
    first = site.apply(smol())
    site.apply(smol(context=1024), OTHER, origin="there")
    plan = site.back(first)
    assert list(of(plan).unplanned) == ["other"]
    assert [change.action for change in of(plan).changes if change.subject == "other"] == []
    assert "other" in {change.subject for change in of(site.back(first, adopt=True)).changes}


def test_killed_anywhere_the_same_command_converges(site: Site):
    first = site.apply(smol(context=1024))
    site.apply(smol(context=2048), OTHER)
    plan = site.back(first)
    begun = site.host.facts()
    operations = sum(len(change.operations) for change in of(plan).changes)
    assert operations > 5
    for done in range(operations):
        site.host = SimulatedHost(begun)
        for number, operation in enumerate(each for change in of(plan).changes for each in change.operations):
            if number < done:
                site.host.perform(operation, lambda event: None)
        site.host.settle()
        site.carry_out(site.back(first))
        assert site.serving == {NAME: 1024}, done
        assert site.back(first).empty, done


def test_history_tells_what_each_changed_and_what_came_of_it(site: Site):
    first = site.apply(smol(context=1024))
    second = site.apply(smol(context=2048), OTHER)
    site.host.failing.add("broken")
    third = site.apply(smol(context=4096, served_name="broken"), OTHER, ends="reverted")
    shown = site.shows()
    assert list(shown) == [third, second, first]

    def told(release: str) -> dict[str, tuple[str, str]]:
        return {each.model: (each.change, each.became) for each in shown[release].instances}

    assert told(first) == {"smol": ("new", "proven")}
    assert told(second) == {"smol": ("changed", "serving"), "other": ("new", "serving")}
    assert told(third) == {"smol": ("changed", "failed"), "other": ("same", "proven")}
    (changed,) = [each for each in shown[second].instances if each.model == "smol"]
    assert ("context", "1024", "2048") in {(diff.field, diff.before, diff.after) for diff in changed.diff}
    (failed,) = [each for each in shown[third].instances if each.model == "smol"]
    assert "never got ready" in failed.why
    assert [release for release, each in shown.items() if each.current] == [second]
    assert not any(each.missing for each in shown.values())


def test_history_tells_what_is_gone_and_what_is_down(site: Site):
    site.apply(smol(), OTHER)
    second = site.apply(smol(context=4096))
    site.host.container(NAME).update(running=False, status="exited")
    told = {each.model: (each.change, each.became) for each in site.shows()[second].instances}
    assert told == {"smol": ("changed", "down"), "other": ("removed", "")}


def test_a_host_that_was_not_reached_says_so():
    wanted = deployment(hosts=("one", "two", "three"))
    told = history(wanted, {"one": facts()}, {"two": "no route"}, {"three": "no root"})
    assert [(each.host, each.unreachable, each.unknown) for each in told] == [
        ("one", "", ""),
        ("two", "no route", ""),
        ("three", "", "no root"),
    ]


def test_of_the_first_form_nobody_noted_what_was_proven(site: Site):
    first = site.apply(smol(context=1024))
    site.apply(smol(context=2048))
    document = site.host.state["releases"]["rag"][first]
    site.host.state["releases"]["rag"][first] = {
        **{key: value for key, value in document.items() if key not in ("by", "proven")},
        "schema": 1,
    }
    (instance,) = site.shows()[first].instances
    assert instance.became == ""
    assert "history" in of(site.back()).unknown
    site.carry_out(site.back(first))
    assert site.serving == {NAME: 1024}


def test_a_release_in_which_one_model_was_only_started_again_served_whole(site: Site):
    site.apply(smol(context=2048), OTHER)
    site.host.container("rag_other_0").update(running=False, status="exited")
    site.apply(smol(context=4096), OTHER)
    site.apply(smol(context=1024), OTHER)
    site.carry_out(site.back())
    assert site.serving[NAME] == 4096


def test_what_only_started_again_is_known_to_be_proven_also_without_the_releases_before(site: Site):
    first = site.apply(smol(context=2048), OTHER)
    site.host.container("rag_other_0").update(running=False, status="exited")
    site.apply(smol(context=4096), OTHER)
    del site.host.state["releases"]["rag"][first]
    site.apply(smol(context=1024), placement("other", port=8200, cpus="cores:1", context=1024))
    site.carry_out(site.back())
    assert site.serving[NAME] == 4096
