"""Registries without TLS and certificates: allowed, shared between deployments, and taken back by the last."""

from __future__ import annotations

import json

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.docker_daemon import daemon_changes, daemon_questions, daemon_removal_changes
from cpudeploy.types.base import Unknown, to_json
from cpudeploy.types.deployment import Deployment, Registry
from cpudeploy.types.facts import DaemonFile, Engine
from tests.factories import deployment, facts
from tests.steps.hosts import Settings

MIRROR = "mirror:5000"
THEIRS = '{"proxies": {"http-proxy": "http://me:planted@proxy"}, "insecure-registries": ["theirs:5000"]}'
PEM = "-----BEGIN CERTIFICATE-----\n…\n"


def named(name: str, *registries: Registry) -> Deployment:
    return msgspec.structs.replace(deployment(), name=name, registries=registries)


RAG, OTHER = named("rag"), named("other")
WITH_CA = named("rag", Registry(scope="harbor:5000/llm", ca=PEM))


def allow(host: Settings, wanted: Deployment = RAG, *registries: str) -> None:
    host.carry_out(wanted, *daemon_changes(host.context(wanted), registries or (MIRROR,)))
    assert daemon_changes(host.context(wanted), registries or (MIRROR,)) == ()


def leave(host: Settings, wanted: Deployment = RAG) -> None:
    host.carry_out(wanted, *daemon_removal_changes(host.context(wanted), "destroy"))
    assert daemon_removal_changes(host.context(wanted), "destroy") == ()


def test_the_owners_settings_stay_and_never_reach_the_plan() -> None:
    host = Settings(THEIRS)
    (change,) = daemon_changes(host.context(RAG), (MIRROR,))
    assert b"planted" not in to_json(change)
    assert [(diff.before, diff.after) for diff in change.diff] == [("theirs:5000", f"theirs:5000, {MIRROR}")]
    host.carry_out(RAG, change)
    assert host.listed == ["theirs:5000", MIRROR]
    assert "planted" in (host.daemon or b"").decode()


@pytest.mark.parametrize("daemon", [None, "{}", '{"debug": true}', THEIRS])
def test_the_last_deployment_leaves_it_as_it_was(daemon: str | None) -> None:
    host = Settings(daemon)
    allow(host)
    allow(host, OTHER)
    leave(host)
    assert MIRROR in host.listed
    leave(host, OTHER)
    assert MIRROR not in host.listed
    assert (host.daemon and json.loads(host.daemon)) == (daemon and json.loads(daemon))
    assert host.record.keys == {}


def test_what_another_deployment_allowed_is_shared_without_a_reload() -> None:
    host = Settings()
    allow(host)
    reloads = host.reloads
    allow(host, OTHER)
    assert host.reloads == reloads
    leave(host)
    assert host.reloads == reloads


def test_each_deployment_takes_back_only_its_own_registry() -> None:
    host = Settings()
    allow(host, RAG, "a:5000")
    allow(host, OTHER, "b:5000")
    leave(host)
    assert host.listed == ["b:5000"]


def test_what_the_owner_allowed_is_not_claimed_and_stays() -> None:
    host = Settings(THEIRS)
    assert daemon_changes(host.context(RAG), ("theirs:5000",)) == ()
    assert daemon_removal_changes(host.context(RAG), "destroy") == ()


def test_what_the_owner_wrote_but_did_not_load_stays() -> None:
    host = Settings(THEIRS)
    host.loaded = {}
    allow(host, RAG, "theirs:5000")
    leave(host)
    assert json.loads(host.daemon or b"") == json.loads(THEIRS)


@pytest.mark.parametrize("daemon", [None, "{}", THEIRS])
def test_a_failed_change_is_undone_in_file_engine_and_record(daemon: str | None) -> None:
    host = Settings(daemon)
    listed = host.listed
    (change,) = daemon_changes(host.context(RAG), (MIRROR,))
    host.perform(*change.operations)
    host.perform(*(change.revert or ()))
    assert (host.daemon and json.loads(host.daemon)) == (daemon and json.loads(daemon))
    assert (host.listed, host.record.keys) == (listed, {})


def test_killed_anywhere_the_next_plan_finishes_and_still_knows_what_was_before() -> None:
    wanted = daemon_changes(Settings().context(RAG), (MIRROR,))
    for kept in range(len(wanted[0].operations) + 1):
        host = Settings()
        host.perform(*wanted[0].operations[:kept])
        allow(host)
        leave(host)
        assert (host.daemon, host.listed, host.record.keys) == (None, [], {}), kept


def test_a_removal_killed_anywhere_is_finished_by_the_next() -> None:
    def served() -> Settings:
        host = Settings()
        allow(host)
        return host

    (change,) = daemon_removal_changes(served().context(RAG), "destroy")
    for kept in range(len(change.operations) + 1):
        host = served()
        host.perform(*change.operations[:kept])
        leave(host)
        assert (host.daemon, host.listed, host.record.keys) == (None, [], {}), kept


def test_an_edit_of_daemon_json_after_the_plan_makes_it_stale() -> None:
    host = Settings("{}")
    (change,) = daemon_changes(host.context(RAG), (MIRROR,))
    host.daemon = b'{"debug": true}'
    with pytest.raises(AssertionError):
        host.carry_out(RAG, change)


def test_a_stopped_engine_is_not_reloaded() -> None:
    host = Settings()
    allow(host)
    host.state, host.loaded = "stopped", {}
    reloads = host.reloads
    leave(host)
    assert (host.daemon, host.reloads) == (None, reloads)


def test_an_existing_engine_is_never_edited() -> None:
    host = Settings(use="existing")
    with pytest.raises(HostError, match="forbids"):
        daemon_changes(host.context(RAG), (MIRROR,))
    assert daemon_changes(host.context(WITH_CA), ()) == ()
    host.use = "install"
    allow(host)
    host.use = "existing"
    before = host.daemon
    leave(host)
    assert host.daemon == before


def test_a_daemon_json_that_is_not_understood_is_refused_at_the_plan() -> None:
    host = Settings()
    broken = Engine(state="running", daemon=Unknown(unknown="not valid JSON: line 1"))
    context = host.context(RAG)
    context = type(context)(context.deployment, context.host, facts(engine=broken), context.resolved)
    with pytest.raises(HostError, match="not valid JSON"):
        daemon_changes(context, (MIRROR,))
    assert daemon_changes(context, ()) == ()


def test_a_host_record_that_is_not_understood_is_refused_at_the_plan() -> None:
    host = Settings()
    host.record = Unknown(unknown="not JSON")
    with pytest.raises(HostError, match=r"host\.json can't be understood"):
        daemon_changes(host.context(RAG), (MIRROR,))
    with pytest.raises(HostError, match=r"host\.json can't be understood"):
        daemon_removal_changes(host.context(RAG), "destroy")
    assert daemon_changes(host.context(RAG), ()) == ()


def test_a_certificate_stands_beside_the_owners_and_goes_with_us() -> None:
    host = Settings()
    theirs = "/etc/docker/certs.d/harbor:5000/ca.crt"
    host.files[theirs] = "theirs"
    host.carry_out(WITH_CA, *daemon_changes(host.context(WITH_CA), ()))
    assert host.files == {theirs: "theirs", "/etc/docker/certs.d/harbor:5000/cpudeploy-rag.crt": PEM}
    assert [question.key for question in daemon_questions(WITH_CA, WITH_CA.hosts["one"])] == [
        path for path in host.files if path != theirs
    ]
    assert daemon_changes(host.context(WITH_CA), ()) == ()
    leave(host)  # even when the manifest no longer names it
    assert host.files == {theirs: "theirs"}
    assert host.record.keys == {}


def test_a_renewed_authority_replaces_ours() -> None:
    host = Settings()
    host.carry_out(WITH_CA, *daemon_changes(host.context(WITH_CA), ()))
    renewed = named("rag", Registry(scope="harbor:5000", ca="renewed"))
    (change,) = daemon_changes(host.context(renewed), ())
    assert change.action == "update"
    host.carry_out(RAG, change)
    leave(host, renewed)
    assert host.files == {}


def test_facts_of_the_settings_hold_no_text() -> None:
    assert set(DaemonFile.__struct_fields__) == {"sha256", "insecure", "settings"}
