"""The engine itself, and curl: installed or started where they are missed, refused where that can't be."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.context import HostContext
from cpudeploy.steps.curl import curl_changes
from cpudeploy.steps.docker_engine import engine_changes
from cpudeploy.types.deployment import HostPath, Placement
from cpudeploy.types.facts import Engine, Os
from cpudeploy.types.resolved import Resolved
from tests.factories import deployment, facts, placement


def context(*placements: Placement, use: str = "install", **changes) -> HostContext:
    wanted = deployment(*placements)
    host = msgspec.structs.replace(wanted.hosts["one"], engine=use)
    return HostContext(deployment=wanted, host=host, facts=facts(**changes), resolved=Resolved())


def test_a_stopped_engine_is_started() -> None:
    (change,) = engine_changes(context(engine=Engine(state="stopped")))
    assert [operation.id for operation in change.operations] == ["start-docker"]


def test_a_bare_host_gets_the_distributions_engine() -> None:
    (change,) = engine_changes(context(engine=Engine(state="absent")))
    (install,) = change.operations
    assert "attempt()" in install.text and "docker.io" in install.text


@pytest.mark.parametrize("state", ["absent", "stopped"])
def test_an_existing_engine_is_neither_installed_nor_started(state: str) -> None:
    with pytest.raises(HostError, match="forbids"):
        engine_changes(context(use="existing", engine=Engine(state=state)))


def test_curl_is_installed_where_a_model_asks_for_it_and_it_is_missed() -> None:
    wanted = placement(fetch="host")
    (change,) = curl_changes(context(wanted, tools={"apt-get": True, "curl": False}))
    (install,) = change.operations
    assert install.args == {"packages": "curl ca-certificates"}
    assert "attempt()" in install.text
    assert curl_changes(context(wanted)) == ()


def test_curl_is_not_missed_where_the_host_need_not_fetch() -> None:
    for fetch in ("auto", "controller"):
        assert curl_changes(context(placement(fetch=fetch), tools={"apt-get": True})) == ()
    local = placement(source=HostPath(path="/models/m.gguf"), fetch="host")
    assert curl_changes(context(local, tools={"apt-get": True})) == ()
    assert curl_changes(context(tools={"apt-get": True})) == ()


@pytest.mark.parametrize(("id", "tools"), [("rocky", {"dnf": True}), ("debian", {})])
def test_curl_that_cannot_be_installed_is_told_at_the_plan(id: str, tools: dict[str, bool]) -> None:
    known = facts().os
    os: Os = msgspec.structs.replace(known, id=id)
    with pytest.raises(HostError, match="curl") as error:
        curl_changes(context(placement(fetch="host"), os=os, tools=tools))
    assert "install curl" in error.value.do
