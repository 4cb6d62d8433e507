"""An explanation has what the plan has, for the model that is asked about, and why the rest has nothing."""

from __future__ import annotations

import msgspec

from cpudeploy.plan import make_plan
from cpudeploy.plan.explain import explanation
from tests.factories import GIB, deployment, facts, placement, playbooks, resolved

TWO = (placement("a", cpus="cores:2"), placement("b", port=8101), placement("c", port=8100, host="two"))
PLACES = {"a@one.cpus": "x.yaml:3:5", "a@one.task": "x.yaml:4:5", "b@one.port": "x.yaml:9:5"}


def explained(*found, model=""):
    wanted = deployment(*TWO, hosts=("one", "two"))
    plan = make_plan(
        wanted, playbooks(), {each.host: each for each in found}, resolved(*TWO), origin="here",
        unreachable={"two": "no route"} if len(found) < 2 else {},
    )  # fmt: skip
    return explanation(plan, wanted, PLACES, model)


def test_instances_come_in_manifest_order_with_what_was_written():
    told = explained(facts(), facts("two"))
    assert [(each.model, each.host, each.port) for each in told.instances] == [
        ("a", "one", 8100),
        ("b", "one", 8101),
        ("c", "two", 8100),
    ]
    assert told.instances[0].written == {"cpus": "x.yaml:3:5"}
    assert told.instances[1].written == {"port": "x.yaml:9:5"}


def test_one_model_alone():
    assert [each.model for each in explained(facts(), facts("two"), model="b").instances] == ["b"]


def test_a_host_without_numbers_says_why():
    told = explained(msgspec.structs.replace(facts(memory=GIB // 2)))
    assert told.instances == ()
    assert "can be given" in told.untold["one"][0]
    assert told.untold["two"] == ("unreachable: no route",)


def test_a_host_that_was_not_asked_about_says_nothing():
    assert list(explained(facts(), model="c").untold) == ["two"]
