"""Whatever a manifest holds, it is read or refused in words: never a traceback, a hang or a crash."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpudeploy.errors import ManifestError
from cpudeploy.manifest import Manifest, load, load_playbook

from .conftest import BASE, ENGINE, KEYLESS
from .test_load_good import FULL

# How long one load takes depends on the machine: no deadline.
OFTEN = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

SCRAPS = st.sampled_from(
    [
        "-rf",
        "a;b",
        "$(id)",
        "`id`",
        "../x",
        "жук",
        "\u202e",
        "x" * 3000,
        "{{ 9 ** 9 }}",
        "{{",
        "{%",
        "null",
        "~",
        "no",
        "010",
        "0x",
        "1e999",
        ".nan",
        "- ",
        ": ",
        "\t",
        "\n",
        "&a",
        "*a",
        "!!x",
        "<<: ",
        "---\n",
        "|",
        ">",
        "[",
        "}",
        "'",
        '"',
        "#",
        "%",
        "@",
        "\\",
        "\x00",
        "\x1b",
        "\ud800",
        "{from_env: A}",
        "none",
        "auto",
        "[]",
        "{}",
        "-1",
        "0",
        "true",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | SCRAPS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shelf")
    for name, text in (("engine", ENGINE), ("keyless", KEYLESS), ("base", BASE)):
        (folder / f"{name}.yaml").write_text(text)
    return folder


def read(text: str, shelf: Path) -> Manifest | None:
    """The manifest, or None when it was refused with reasons that have a place and can be printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inventory.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            return load(path, [shelf])
        except ManifestError as error:
            assert error.problems
            for problem in error.problems:
                assert problem.where
                assert len(problem.what) + len(problem.do) < 1500
                assert (problem.what + problem.do).isprintable()
            str(error).encode()
            return None


@OFTEN
@given(at=st.integers(0, len(FULL)), length=st.integers(0, 30), scrap=SCRAPS)
def test_text_cut_and_pasted_anywhere(shelf: Path, at: int, length: int, scrap: str) -> None:
    read(FULL[:at] + scrap + FULL[at + length :], shelf)


def paths(data: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(inner for key, child in children for inner in paths(child, (*path, key)))]


@OFTEN
@given(choice=st.data(), value=VALUES)
def test_any_value_at_any_place(shelf: Path, choice: st.DataObject, value: object) -> None:
    data = yaml.safe_load(FULL.replace(" on:", ' "on":'))
    place = choice.draw(st.sampled_from(paths(data)[1:]))
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    read(yaml.safe_dump(data, allow_unicode=True), shelf)


@OFTEN
@given(choice=st.data(), value=VALUES)
def test_any_value_at_any_place_of_a_playbook(choice: st.DataObject, value: object) -> None:
    data = yaml.safe_load(ENGINE)
    place = choice.draw(st.sampled_from(paths(data)[1:]))
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "engine.yaml").write_text(yaml.safe_dump(data, allow_unicode=True))
        try:
            load_playbook("engine", [Path(folder)])
        except ManifestError as error:
            assert all(problem.where.startswith(folder) for problem in error.problems)
