"""Settings of the engine: set with as little as they need, shared, put back, and never left half-done."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cpudeploy.errors import HostError, OperationFailed
from cpudeploy.steps.docker_daemon import daemon_changes, daemon_questions, daemon_removal_changes
from cpudeploy.types.base import to_json
from cpudeploy.types.deployment import Deployment
from cpudeploy.types.facts import Mark
from cpudeploy.types.plan import Change
from tests.factories import container, deployment
from tests.steps.hosts import Died, Settings

RESTART = {"log-level": "warn"}
RELOAD = {"max-concurrent-downloads": 2}
THEIRS = '{"log-level": "planted", "proxies": {"http-proxy": "http://me:planted@proxy"}}'
FILES = [None, "{}", THEIRS, '{"debug": true, "live-restore": true}', '{"live-restore": false}']


def wants(settings: dict[str, Any], name: str = "rag") -> Deployment:
    wanted = deployment()
    host = msgspec.structs.replace(wanted.hosts["one"], engine_settings=settings)
    return msgspec.structs.replace(wanted, name=name, hosts={**wanted.hosts, "one": host})


def with_containers(daemon: str | None = None) -> Settings:
    host = Settings(daemon)
    ours = Mark(schema=1, deployment="rag", model="qwen", instance=0, release="0001-a")
    host.containers = {"rag_qwen_0": container(mark=ours), "theirs": container(mark=None)}
    return host


def plan(host: Settings, wanted: Deployment) -> tuple[Change, ...]:
    return daemon_changes(host.context(wanted), ())


def apply(host: Settings, wanted: Deployment) -> None:
    host.carry_out(wanted, *plan(host, wanted))
    assert plan(host, wanted) == ()


def leave(host: Settings, wanted: Deployment) -> None:
    host.carry_out(wanted, *daemon_removal_changes(host.context(wanted), "destroy"))
    assert daemon_removal_changes(host.context(wanted), "destroy") == ()


def file(host: Settings) -> Any:
    return None if host.daemon is None else json.loads(host.daemon)


def test_what_a_reload_is_enough_for_restarts_nothing() -> None:
    host = with_containers()
    (change,) = plan(host, wants(RELOAD))
    assert "nothing restarts" in change.summary
    assert (change.restarts, change.gap_s) == (0, None)
    apply(host, wants(RELOAD))
    assert (host.loaded, host.restarts, host.lost) == (RELOAD, 0, 0)


def test_a_restart_is_outlived_by_all_containers() -> None:
    host = with_containers()
    (change,) = plan(host, wants(RESTART))
    assert "containers keep running" in change.summary
    assert (change.restarts, change.restarts_foreign) == (0, 0)
    apply(host, wants(RESTART))
    assert host.loaded == {**RESTART, "live-restore": True}
    assert (host.restarts, host.lost) == (1, 0)


def test_live_restore_said_to_be_off_is_believed_and_counted() -> None:
    host = with_containers()
    (change,) = plan(host, wants({**RESTART, "live-restore": False}))
    assert (change.restarts, change.restarts_foreign) == (2, 1)


def test_a_swarm_forbids_live_restore() -> None:
    host = with_containers()
    host.swarm = True
    (change,) = plan(host, wants(RESTART))
    assert (change.restarts, change.restarts_foreign) == (2, 1)
    apply(host, wants(RESTART))
    assert "live-restore" not in file(host)
    with pytest.raises(HostError, match="swarm"):
        plan(host, wants({"live-restore": True}))


@pytest.mark.parametrize("daemon", FILES)
@pytest.mark.parametrize("settings", [RESTART, RELOAD, {**RESTART, **RELOAD, "debug": True}])
def test_the_last_to_leave_puts_file_and_engine_back_and_nothing_stops(
    daemon: str | None, settings: dict[str, Any]
) -> None:
    host = with_containers(daemon)
    before = dict(host.loaded)
    apply(host, wants(settings))
    assert settings.items() <= host.loaded.items()
    apply(host, wants(settings, "other"))
    leave(host, wants(settings))
    assert settings.items() <= host.loaded.items()
    leave(host, wants(settings, "other"))
    assert file(host) == (daemon and json.loads(daemon))
    neutral = {"debug": False, "live-restore": False}
    assert {**neutral, **host.loaded} == {**neutral, **before}
    assert (host.record.keys, host.before, host.lost) == ({}, {}, 0)


def test_what_the_owner_had_is_in_no_plan_and_not_in_what_facts_tell() -> None:
    host = with_containers(THEIRS)
    context = host.context(wants(RESTART))
    (change,) = daemon_changes(context, ())
    assert "planted" not in (to_json(change) + to_json(context.facts)).decode()
    assert ("log-level", "another value", '"warn"') in [
        (diff.field, diff.before, diff.after) for diff in change.diff
    ]
    apply(host, wants(RESTART))
    told = host.context(wants(RESTART)).facts
    assert "planted" not in to_json(told).decode()


def test_what_is_so_already_is_shared_without_touching_the_engine() -> None:
    host = with_containers('{"log-level": "warn", "live-restore": true}')
    before = host.daemon
    apply(host, wants(RESTART))
    assert (host.daemon, host.reloads, host.restarts) == (before, 0, 0)
    leave(host, wants(RESTART))
    assert (host.daemon, host.reloads, host.restarts) == (before, 0, 0)


def test_another_deployments_other_value_is_refused_and_it_is_named() -> None:
    host = with_containers()
    apply(host, wants(RESTART, "other"))
    with pytest.raises(HostError, match=r'"warn" for deployment other, and "error" is wanted') as error:
        plan(host, wants({"log-level": "error"}))
    assert "agree" in error.value.do


def test_a_value_may_be_changed_by_its_only_owner() -> None:
    host = with_containers(THEIRS)
    apply(host, wants(RESTART))
    apply(host, wants({"log-level": "error"}))
    assert host.loaded["log-level"] == "error"
    leave(host, wants({"log-level": "error"}))
    assert file(host) == json.loads(THEIRS)


def test_a_setting_no_playbook_wants_any_more_goes() -> None:
    host = with_containers(THEIRS)
    apply(host, wants({**RESTART, "debug": True}))
    apply(host, wants(RELOAD))
    assert file(host) == {**json.loads(THEIRS), **RELOAD}
    assert host.loaded == {**json.loads(THEIRS), **RELOAD, "debug": False, "live-restore": False}
    assert host.lost == 0


def test_somebody_elses_edit_of_our_setting_is_shown_and_set_again_and_left_alone_when_we_go() -> None:
    host = with_containers()
    apply(host, wants(RESTART))
    edited = {**file(host), "log-level": "debug"}
    host.daemon = json.dumps(edited).encode()
    (change,) = plan(host, wants(RESTART))
    assert [diff.why for diff in change.diff] == ["it was set before, and changed by somebody else since"]
    leave(host, wants(RESTART))
    assert file(host)["log-level"] == "debug"


@pytest.mark.parametrize("daemon", FILES)
def test_a_setting_the_engine_refuses_changes_nothing(daemon: str | None) -> None:
    host = with_containers(daemon)
    before, loaded = host.daemon, dict(host.loaded)
    (change,) = plan(host, wants({"unknown": 1}))
    done = []
    with pytest.raises(OperationFailed, match="refused"):
        for operation in change.operations:
            host.perform(operation)
            done.append(operation.id)
    assert "restart" not in done
    host.perform(*(change.revert or ()))
    assert (host.daemon, host.record.keys, host.lost) == (before, {}, 0)
    assert {"live-restore": False, **host.loaded} == {"live-restore": False, **loaded}


@pytest.mark.parametrize("by_guard", [True, False])
@pytest.mark.parametrize("daemon", FILES)
def test_a_setting_that_keeps_the_engine_down_is_taken_back(daemon: str | None, by_guard: bool) -> None:
    host = with_containers(daemon)
    before, loaded = host.daemon, dict(host.loaded)
    (change,) = plan(host, wants({"deadly": 1}))
    with pytest.raises(Died):
        host.perform(*change.operations)
    if by_guard:
        host.die()
    else:
        host.perform(*(change.revert or ()))
        assert host.record.keys == {}
    assert (host.state, host.daemon, host.lost) == ("running", before, 0)
    assert {"live-restore": False, **host.loaded} == {"live-restore": False, **loaded}


@pytest.mark.parametrize("daemon", FILES)
@pytest.mark.parametrize("settings", [RESTART, {**RELOAD, "debug": True}])
def test_killed_anywhere_the_guard_leaves_it_whole_and_the_next_apply_converges(
    daemon: str | None, settings: dict[str, Any]
) -> None:
    wanted = wants(settings)
    (change,) = plan(with_containers(daemon), wanted)
    for kept in range(len(change.operations) + 1):
        host = with_containers(daemon)
        loaded = dict(host.loaded)
        host.perform(*change.operations[:kept])
        guarded = host.armed is not None
        host.die()
        if guarded:
            assert file(host) == (daemon and json.loads(daemon)), kept
            neutral = {"debug": False, "live-restore": False}
            assert {**neutral, **host.loaded} == {**neutral, **loaded}, kept
        host.carry_out(wanted, *plan(host, wanted))
        assert settings.items() <= host.loaded.items()
        leave(host, wanted)
        assert file(host) == (daemon and json.loads(daemon)), kept
        assert (host.record.keys, host.before, host.lost) == ({}, {}, 0), kept


@pytest.mark.parametrize("daemon", FILES)
def test_undone_after_any_operation_the_same_change_can_be_done_again(daemon: str | None) -> None:
    wanted = wants({**RESTART, **RELOAD})
    (change,) = plan(with_containers(daemon), wanted)
    for kept in range(len(change.operations) + 1):
        host = with_containers(daemon)
        before = host.daemon
        host.perform(*change.operations[:kept])
        host.perform(*(change.revert or ()))
        assert (host.daemon, host.record.keys, host.before) == (before, {}, {}), kept
        host.carry_out(wanted, change)
        assert host.lost == 0


@pytest.mark.parametrize("daemon", FILES)
def test_a_removal_killed_anywhere_is_finished_by_the_next(daemon: str | None) -> None:
    wanted = wants({**RESTART, "debug": True})

    def served() -> Settings:
        host = with_containers(daemon)
        apply(host, wanted)
        return host

    (change,) = daemon_removal_changes(served().context(wanted), "destroy")
    for kept in range(len(change.operations) + 1):
        host = served()
        host.perform(*change.operations[:kept])
        host.die()
        leave(host, wanted)
        assert file(host) == (daemon and json.loads(daemon)), kept
        assert (host.record.keys, host.before, host.lost) == ({}, {}, 0), kept


def test_an_existing_engine_is_not_edited_but_told_of() -> None:
    host = with_containers()
    host.use = "existing"
    with pytest.raises(HostError, match='"log-level": "warn"') as error:
        plan(host, wants(RESTART))
    assert "/etc/docker/daemon.json" in error.value.do
    host = with_containers('{"log-level": "warn"}')
    host.use = "existing"
    assert plan(host, wants(RESTART)) == ()


def test_only_what_is_wanted_is_asked_about() -> None:
    wanted = wants(RESTART)
    asked = {(each.kind, each.key, each.arg) for each in daemon_questions(wanted, wanted.hosts["one"])}
    assert asked == {("setting", "log-level", '"warn"'), ("setting", "live-restore", "true")}
    assert daemon_questions(deployment(), deployment().hosts["one"]) == ()
