"""The house keeps its shape: pure rooms import no room that does I/O, and types import nothing of ours."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "cpudeploy"
ALLOWED = {
    "types": set(),
    "manifest": {"types", "errors", "data_files"},
    "sizing": {"types", "errors"},
    "steps": {"types", "errors", "manifest", "sizing"},
    "plan": {"types", "errors", "steps", "sizing"},
    "transport": {"types", "errors", "secrets"},
    "probe": {"types", "errors", "transport"},
    "resolve": {"types", "errors", "secrets"},
    "execute": {"types", "errors", "secrets", "transport", "probe", "plan", "who"},
    "report": {"types", "errors"},
}


def imports(file: Path) -> set[str]:
    """The rooms a file imports from, its own left out."""
    room = file.relative_to(PACKAGE).parts[0]
    package = ["cpudeploy", *file.relative_to(PACKAGE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{stem}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "cpudeploy" and len(parts) > 1:
                found.add(parts[1])
    return found - {room, "__version__"}


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_its_door_allows(room):
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert files
    wrong = {
        f"{file.relative_to(PACKAGE)} imports {other}"
        for file in files
        for other in imports(file)
        if other not in ALLOWED[room]
    }
    assert not wrong


def test_the_pure_rooms_do_no_input_or_output_of_their_own():
    forbidden = {"socket", "subprocess", "httpx", "paramiko", "fabric", "requests", "urllib", "threading"}
    for room in ("types", "manifest", "sizing", "steps", "plan"):
        for file in (PACKAGE / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                assert not {name.split(".")[0] for name in names} & forbidden, file


def test_no_file_has_grown_too_large():
    large = [str(file) for file in PACKAGE.rglob("*.py") if len(file.read_text().splitlines()) > 400]
    assert not large
