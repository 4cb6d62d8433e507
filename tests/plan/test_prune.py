"""Pruning takes what nobody needs, and nothing else: whoever else is on the host, wherever it was ended."""

from __future__ import annotations

import contextlib
import random

import msgspec
import pytest

from cpudeploy.plan import make_plan, prune_plan
from cpudeploy.types.base import to_data
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.facts import Engine, Facts, Image
from cpudeploy.types.outcome import HostOutcome
from cpudeploy.types.plan import Change, Plan
from cpudeploy.types.release import Release, read_release
from cpudeploy.types.safety import Hold
from tests.factories import container, facts, playbooks
from tests.simulated import Killed, SimulatedHost
from tests.upgrades import ALICE, BOB, apply, run, through_json, upgraded, wish

FOREIGN = "sha256:" + "f" * 64


def planned(wanted: Deployment, host: SimulatedHost, keep: int = 5, *, unfinished: bool = False) -> Plan:
    found = {"one": host.facts()}
    return through_json(prune_plan(wanted, found, origin="here", keep=keep, unfinished=unfinished))


def prune(wanted: Deployment, host: SimulatedHost, keep: int = 5) -> HostOutcome:
    return run(planned(wanted, host, keep), host)


def changes(plan: Plan) -> dict[str, Change]:
    return {change.subject: change for change in plan.hosts["one"].changes}


def releases(found: Facts, name: str) -> dict[str, Release]:
    read = {id: read_release(document) for id, document in found.releases.get(name, {}).items()}
    return {id: release for id, release in read.items() if release is not None}


def missing(found: Facts, release: Release) -> set[str]:
    """What a rollback to it would not find."""
    lacking = set()
    for instance in release.instances.values():
        digest = instance.container.image.rpartition("@")[2]
        if digest not in found.images:
            lacking.add(digest)
        inodes = {blob.inode for blob in found.weights.blobs.values()}
        tree = found.weights.trees.get(instance.tree, {})
        if not tree or not set(tree.values()) <= inodes:
            lacking.add(instance.tree)
    return lacking


def test_old_releases_go_with_their_images_and_weights():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 6)
    plan = planned(wanted, host, keep=1)
    assert "1.0 GB" not in changes(plan)["weights"].summary
    # In use: 6; to roll back to: 5; kept beside them: 4. So 1, 2 and 3 GB go.
    assert "6.0 GB in 3 files" in changes(plan)["weights"].summary
    assert prune(wanted, host, keep=1).status == "done"
    found = host.facts()
    assert [id[:4] for id in sorted(found.releases[ALICE])] == ["0004", "0005", "0006"]
    assert len(found.images) == len(found.weights.trees) == len(found.weights.blobs) == 3
    assert len(found.weights.claims[ALICE]) == len(found.weights.refs[f"{ALICE}.fetched"]) == 3
    assert planned(wanted, host, keep=1).empty


def test_with_few_releases_there_is_nothing_to_do():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 6)
    assert not planned(wanted, host, keep=3).empty
    assert planned(wanted, host, keep=5).empty


def test_nothing_is_kept_beside_and_still_what_serves_and_where_a_rollback_leads_stays():
    host = SimulatedHost(facts())
    upgraded(host, ALICE, 3)
    failing, given = wish(ALICE, weights=9, image=9, served_name="broken")
    host.failing.add("broken")
    assert apply(failing, given, host).status == "reverted"
    before = releases(host.facts(), ALICE)
    prune(failing, host, keep=0)
    found = host.facts()
    # 3 serves, 2 is where a rollback leads, and 4 is the newest: it says what failed.
    assert [id[:4] for id in sorted(found.releases[ALICE])] == ["0002", "0003", "0004"]
    for id in found.releases[ALICE]:
        assert missing(found, before[id]) == set()


def test_a_rollback_leads_over_what_was_never_proven():
    host = SimulatedHost(facts())
    upgraded(host, ALICE, 2)
    for number in (7, 8):
        failing, given = wish(ALICE, weights=number, image=number, served_name="broken")
        host.failing = {"broken"}
        assert apply(failing, given, host).status == "reverted"
    wanted, given = wish(ALICE, weights=9, image=9)
    assert apply(wanted, given, host).status == "done"
    # Whoever writes releases notes what was proven of them; here the first two were.
    for id in host.state["releases"][ALICE]:
        if id[:4] in ("0001", "0002", "0005"):
            host.state["releases"][ALICE][id]["proven"] = [f"{ALICE}_m0_0"]
    prune(wanted, host, keep=0)
    assert [id[:4] for id in sorted(host.facts().releases[ALICE])] == ["0002", "0005"]


def test_what_another_deployment_may_need_stays():
    """Its rollback sets too: one environment's prune never takes another's."""
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 4)
    upgraded(host, BOB, 4)
    theirs = releases(host.facts(), BOB)
    plan = planned(wanted, host, keep=0)
    assert set(changes(plan)) == {"releases"}  # the other one has the same images and weights
    run(plan, host)
    assert releases(host.facts(), BOB) == theirs
    assert {lack for release in theirs.values() for lack in missing(host.facts(), release)} == set()


def test_an_image_that_is_not_ours_stays_and_so_does_one_that_was_given_a_tag():
    host = SimulatedHost(facts())
    image = Image(id=FOREIGN, references=(f"theirs@{FOREIGN}",), size=5, platform="linux/amd64")
    host.state["images"][FOREIGN] = to_data(image)
    wanted = upgraded(host, ALICE, 4)
    tagged = f"sha256:{1:064x}"
    host.state["images"][tagged]["references"].append("theirs:stable")
    plan = planned(wanted, host, keep=0)
    assert any("theirs:stable" in warning for warning in plan.hosts["one"].warnings)
    run(plan, host)
    assert {FOREIGN, tagged} <= set(host.facts().images)
    assert f"sha256:{2:064x}" not in host.facts().images


def test_what_a_container_of_somebody_else_uses_stays():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 4)
    digest, folder = f"sha256:{1:064x}", wanted.hosts["one"].weights_dir
    foreign = container("x", mark=None, image=f"any@{digest}", mounts=(f"{folder}/trees/org-2/sub",))
    host.state["containers"]["theirs"] = to_data(foreign)
    prune(wanted, host, keep=0)
    found = host.facts()
    assert digest in found.images
    assert found.weights.blobs.keys() >= {f"{2:08x}" * 8}
    assert set(found.weights.trees) == {"org-2", "org-3", "org-4"}


def test_what_was_fetched_for_an_apply_that_was_broken_off_waits_for_it():
    host = SimulatedHost(facts())
    upgraded(host, ALICE, 1)
    host.state["weights"]["partial"] = {"b" * 64: 7 * 10**9}
    host.state["weights"]["claims"][ALICE].append("b" * 64)
    wanted, given = wish(ALICE, weights=2, image=2)
    upgrade = make_plan(wanted, playbooks(), {"one": host.facts()}, given, origin="here")
    for change in upgrade.hosts["one"].changes:
        if change.phase == "fetch":  # and no further
            for operation in change.operations:
                host.perform(operation, lambda event: None)
    assert prune(wanted, host, keep=0).status == "unchanged"
    (told,) = planned(wanted, host).hosts["one"].warnings
    assert "9.0 GB in 2 files" in told and "--unfinished" in told
    plan = planned(wanted, host, unfinished=True)
    assert "9.0 GB in 2 files" in changes(plan)["weights"].summary
    run(plan, host)
    found = host.facts().weights
    assert (found.partial, set(found.trees)) == ({}, {"org-1"})
    assert planned(wanted, host, unfinished=True).empty
    assert planned(wanted, host).hosts["one"].warnings == ()


def test_a_download_of_another_deployment_stays_and_one_of_nobody_goes():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 1)
    host.state["weights"]["partial"] = {"b" * 64: 10, "c" * 64: 10}
    host.state["weights"]["claims"][BOB] = ["b" * 64]
    prune(wanted, host)
    assert set(host.facts().weights.partial) == {"b" * 64}


def test_what_came_to_be_used_since_the_plan_was_made_stays():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 4)
    plan = planned(wanted, host, keep=0)
    (tree,) = set(host.state["weights"]["trees"]) - {"org-2", "org-3", "org-4"}
    host.state["weights"]["refs"][f"{BOB}.fetched"] = [tree]
    run(plan, host)
    assert missing_files(host) == set()
    assert tree in host.facts().weights.trees


def missing_files(host: SimulatedHost) -> set[str]:
    weights = host.facts().weights
    inodes = {blob.inode for blob in weights.blobs.values()}
    return {tree for tree, files in weights.trees.items() if not set(files.values()) <= inodes}


def test_a_hold_goes_with_its_release_and_old_marks_of_finished_plans_go():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 4)
    first, *_, last = sorted(host.state["releases"][ALICE])
    hold = Hold(wanted="x", release=first, at="2026-11-30T00:00:00Z", what="it never got ready")
    host.state["held"][ALICE] = {
        "alice_x_0": to_data(hold),
        "alice_m0_0": to_data(msgspec.structs.replace(hold, release=last)),
    }
    host.state["used_plans"][ALICE] = [f"plan-{number}" for number in range(130)]
    prune(wanted, host, keep=0)
    found = host.facts()
    assert set(found.held[ALICE]) == {"alice_m0_0"}
    assert 0 < len(found.used_plans[ALICE]) < 130
    assert planned(wanted, host, keep=0).empty


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": Engine(state="stopped")},
        {"engine": Engine(state="absent")},
        {"engine": Engine(state="unknown", detail="no answer")},
        {"root": "none"},
        {"releases": {BOB: {"0001-aaaaaaaa": {"schema": 99}}}},
    ],
    ids=["stopped", "uninstalled", "unknown", "no root", "a newer cpudeploy's release"],
)
def test_where_what_is_in_use_cannot_be_seen_nothing_goes(changed):
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 4)
    found = host.facts()
    if "releases" in changed:
        changed = {"releases": {**found.releases, **changed["releases"]}}
    plan = prune_plan(wanted, {"one": msgspec.structs.replace(found, **changed)}, origin="here", keep=0)
    assert plan.empty
    assert "do: " in plan.hosts["one"].unknown


def test_a_host_that_nothing_was_ever_done_to_has_nothing_to_prune():
    wanted, _ = wish(ALICE)
    bare = facts(engine=Engine(state="absent"))
    plan = prune_plan(wanted, {"one": bare}, origin="here", keep=0)
    assert (plan.empty, plan.hosts["one"].unknown) == (True, "")


def test_a_plan_that_is_stale_removes_nothing():
    host = SimulatedHost(facts())
    wanted = upgraded(host, ALICE, 4)
    plan = planned(wanted, host, keep=0)
    newer, given = wish(ALICE, context=4096, weights=5, image=5)
    apply(newer, given, host)
    before = host.facts()
    assert run(plan, host).status == "stale"
    assert (host.facts().images, host.facts().weights) == (before.images, before.weights)


def needed(found: Facts, name: str, keep: int) -> set[str]:
    """Releases that must outlive a prune, worked out anew: used, the newest, and the newest of the rest."""
    used = {each.mark.release for each in found.containers.values() if each.mark.deployment == name}
    by_age = sorted(found.releases.get(name, {}), reverse=True)
    fixed = used | set(by_age[:1])
    return fixed | set([id for id in by_age if id not in fixed][:keep])


@pytest.mark.parametrize("seed", range(8))
def test_whatever_was_applied_everything_that_stays_is_whole(seed: int):
    """Any applies of two deployments, some failing, some killed; then any prunes, some killed."""
    chance = random.Random(seed)
    host = SimulatedHost(facts(memory=64 << 30), failing={"broken"})
    host.state["images"][FOREIGN] = to_data(
        Image(id=FOREIGN, references=(f"theirs@{FOREIGN}",), size=5, platform="linux/amd64")
    )
    last = {}
    for _ in range(chance.randint(4, 10)):
        name = chance.choice((ALICE, BOB))
        served = {"served_name": "broken"} if chance.random() < 0.2 else {}
        wanted, given = wish(
            name,
            context=1024 * chance.randint(1, 4),
            weights=chance.randint(1, 6),
            image=chance.randint(1, 6),
            models=chance.randint(1, 2),
            **served,
        )
        last[name] = wanted
        with perhaps_killed(chance, host):
            assert apply(wanted, given, host).error == ""
    for name, wanted in last.items():
        keep = chance.randint(0, 3)
        before = host.facts()
        with perhaps_killed(chance, host):
            prune(wanted, host, keep)
        check_whole(before, host.facts(), name, keep)
        prune(wanted, host, keep)
        check_whole(before, host.facts(), name, keep)
        for release in releases(host.facts(), name).values():
            assert missing(host.facts(), release) <= missing(before, release)
        assert planned(wanted, host, keep).empty
    assert missing_files(host) == set()


@contextlib.contextmanager
def perhaps_killed(chance: random.Random, host: SimulatedHost):
    if chance.random() < 0.3:
        host.die_after = len(host.log) + chance.randint(0, 8)
    with contextlib.suppress(Killed):
        yield
    host.die_after = None
    host.die()


def check_whole(before: Facts, after: Facts, name: str, keep: int) -> None:
    """Nothing that was there and that a release which stays needs is missing; nothing else was touched."""
    assert after.containers == before.containers
    assert FOREIGN in after.images
    for other in before.releases.keys() - {name}:
        assert after.releases[other] == before.releases[other]
    staying = needed(before, name, keep)
    assert staying <= after.releases.get(name, {}).keys() | used_without_record(before)
    for deployment_name in after.releases:
        for id, release in releases(after, deployment_name).items():
            if deployment_name != name or id in staying:
                assert missing(after, release) <= missing(before, release)


def used_without_record(found: Facts) -> set[str]:
    recorded = {id for documents in found.releases.values() for id in documents}
    return {each.mark.release for each in found.containers.values()} - recorded
