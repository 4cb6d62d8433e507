"""What is left out is told to people once a model, whatever number of hosts it is left out on."""

from __future__ import annotations

from cpudeploy.report.left_out import left_out
from cpudeploy.report.plan_markdown import render_plan_markdown
from cpudeploy.report.plan_text import render_plan

from .samples import host_plan, plan_of

WHY = "image ghcr.io/x/y:1: no place has it: ghcr.io/x/y:1: not found; do: check the name and the tag"


def fleet(**models: str):
    return plan_of(*(host_plan(name, unplanned=dict(models)) for name in ("a", "b", "c")))


def test_a_long_reason_is_told_once_a_model_and_then_by_where_it_stands() -> None:
    told = left_out(fleet(m=WHY, n=WHY))
    assert told["a"] == {"m": f"not planned: {WHY}", "n": f"not planned: {WHY}"}
    assert told["b"] == told["c"] == {"m": "not planned: as on a", "n": "not planned: as on a"}


def test_a_short_one_is_told_where_it_is() -> None:
    assert left_out(fleet(m="too short"))["c"] == {"m": "not planned: too short"}


def test_another_reason_of_the_same_model_is_told_too() -> None:
    plan = plan_of(host_plan("a", unplanned={"m": WHY}), host_plan("b", unplanned={"m": WHY + " or mirror"}))
    assert left_out(plan)["b"] == {"m": f"not planned: {WHY} or mirror"}


def test_plans_for_people_are_no_wall_of_it() -> None:
    plan = fleet(m=WHY)
    for text in (
        render_plan(plan, colour=False, width=400, verbose=False),
        render_plan_markdown(plan).replace("\\", "").replace("<!-- -->", ""),
    ):
        assert text.count("no place has it") == 1
        assert text.count("not planned: as on a") == 2
