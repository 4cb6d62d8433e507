"""The page on playbooks names all that a template may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.manifest.templates import CONTEXT_NAMES

ROWS = [
    line.partition("|")[2].partition("|")[0] + line.partition("|")[2].partition("|")[2]
    for line in (Path(__file__).parents[2] / "docs" / "playbooks.md").read_text().splitlines()
    if line.startswith("| `")
]


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, names in CONTEXT_NAMES.items() for name in names]
)
def test_every_name_of_the_context_has_a_row(group: str, name: str) -> None:
    mine = [row for row in ROWS if row.startswith(f" `{group}.")]
    assert any(f"`{name}`" in row or f"`{group}.{name}`" in row for row in mine), f"{group}.{name}"
