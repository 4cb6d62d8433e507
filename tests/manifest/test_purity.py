"""The room reads files and nothing more: it can't reach a host, a registry or a secret's value."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cpudeploy.manifest

FORBIDDEN = (
    "transport",
    "resolve",
    "probe",
    "execute",
    "secrets",
    "sizing",
    "plan",
    "steps",
    "report",
    "cli",
)
FILES = sorted(Path(cpudeploy.manifest.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_other_room_is_imported(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            assert not name.startswith(tuple(f"cpudeploy.{room}" for room in FORBIDDEN)), name
            assert name.split(".")[0] not in ("socket", "subprocess", "httpx", "paramiko", "urllib"), name
