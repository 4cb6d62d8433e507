"""What `status` says of a container that is not up, or not for long."""

import time

import pytest

from cpudeploy.plan.status import status_rows
from cpudeploy.types.facts import Facts
from tests.factories import container, deployment, facts, placement


def told(**changes) -> tuple[str, str]:
    host: Facts = facts(containers={"rag_smol_0": container(**changes)})
    (row,) = status_rows(deployment(placement()), {"one": host})
    return row.state, row.detail


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"exit_code": 0}, "stopped by somebody"),
        ({"exit_code": 137}, "stopped by somebody"),
        ({"exit_code": 0, "restart_policy": "no"}, "it ended by itself, its gate was never passed"),
        ({"exit_code": 127}, ""),
        ({"exit_code": 137, "oom_killed": True}, ""),
    ],
)
def test_one_that_is_down_is_told_apart_from_one_that_was_told_to_stop(changes, detail):
    """The engine brings back a proven one that ends, also with 0; one that was never proven it lets lie."""
    state, said = told(status="exited", running=False, **changes)
    assert state == "stopped"
    assert said.startswith(detail) and bool(said) == bool(detail)


def test_an_engine_that_dies_long_after_its_start_is_seen_to_restart_between_its_deaths():
    """It is `running` for most of the time: while it loads, and until it dies."""
    clock = facts().clock
    young = {"started_at": rfc3339(clock - 20), "restarts": 4}
    state, said = told(**young)
    assert state == "restarting"
    assert "ended by itself" in said and "4 restarts" in said and "cpudeploy logs smol" in said
    assert told(**young | {"restarts": 0})[0] == "serving"
    assert told(**young | {"started_at": rfc3339(clock - 7200)})[0] == "serving"


def test_what_the_manifest_does_not_name_any_more_is_told_while_it_runs():
    found = {
        "rag_smol_0": container(),
        "rag_smol_0_old": container(running=False, status="exited"),
        "rag_former_0": container("former"),
        "rag_stopped_0": container("stopped", running=False, status="exited"),
        "theirs": container(mark=None),
    }
    rows = status_rows(deployment(placement()), {"one": facts(containers=found)})
    assert [(row.model, row.state) for row in rows] == [("smol", "serving"), ("former", "unlisted")]
    assert "not in the manifest" in rows[1].detail


def rfc3339(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime(seconds))
