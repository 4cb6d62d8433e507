"""Recorded facts and an inventory in, the plan's text out: a folder a case.

`<case>/plan.txt` is what `cpudeploy plan --facts` shows. `<case>/inventory.yaml` and `<case>/facts/` are what
it plans; a case without an inventory is about the shipped one of its name and `inventories/facts`. A new case
is a new folder: CPUDEPLOY_WRITE_CASES=1 writes each plan.txt as it is now.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpudeploy.cli.deciding import decide_recorded
from cpudeploy.report.plan_text import render_plan
from cpudeploy.report.written import plan_data
from cpudeploy.types.base import from_json, to_json
from cpudeploy.types.plan import Plan
from tests.schemas import check_document

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "inventories"
CASES = sorted(path for path in HERE.iterdir() if (path.is_dir() and path.name[0] not in "_."))
RECORDED = {path.stem for path in (SHIPPED / "facts").glob("*.json")}


def inventory_of(case: Path) -> tuple[Path, Path]:
    """The inventory and the folder of facts that a case is about."""
    own = case / "inventory.yaml"
    return (own, case / "facts") if own.exists() else (SHIPPED / f"{case.name}.yaml", SHIPPED / "facts")


def planned(case: Path) -> Plan:
    inventory, facts = inventory_of(case)
    plan = decide_recorded(inventory, facts)
    assert from_json(to_json(plan), Plan) == plan
    check_document("plan", plan_data(plan))
    return plan


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_plan_is_as_kept(case: Path) -> None:
    told = render_plan(planned(case), colour=False, width=110, verbose=False)
    # Where the checkout lies is nobody's business.
    told = told.replace(f"{HERE}/", "").replace(f"{SHIPPED.parent}/", "") + "\n"
    kept = case / "plan.txt"
    if os.environ.get("CPUDEPLOY_WRITE_CASES"):
        kept.write_text(told)
    assert told == kept.read_text()


@pytest.mark.parametrize("inventory", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_inventory_with_facts_is_a_case(inventory: Path) -> None:
    from cpudeploy.manifest import load

    if load(inventory).deployment.hosts.keys() <= RECORDED:
        assert inventory.stem in {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_plan_of_records_says_so_and_asks_nothing_of_the_world(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("a recorded plan connects to nobody")

    monkeypatch.setattr("socket.socket.connect", connect)
    assert planned(case).recorded
