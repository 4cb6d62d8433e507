"""Files that are no document at all, and those made to hurt."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.errors import ManifestError
from cpudeploy.manifest import load

from .conftest import GOOD, Failer, changed


def refusal(path: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        load(path)
    (problem,) = caught.value.problems
    return f"{problem.where} {problem.what} {problem.do}"


def test_a_missing_file(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "none.yaml")


def test_a_folder(tmp_path: Path) -> None:
    assert "inventory.yaml" in refusal(tmp_path)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text(GOOD + "#" * 2**20)
    assert "larger than 1 MiB" in refusal(path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"version: 1\nname: caf\xe9\n")
    assert "not UTF-8 text (line 2, byte 10)" in refusal(path)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n...\n"], ids=["empty", "comment", "markers"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    assert refusal(path)


@pytest.mark.parametrize(
    "text", ["- a\n", "text\n", "3\n", "!!map {}\n"], ids=["list", "text", "number", "tag"]
)
def test_a_document_that_is_no_map(problems_of: Failer, text: str) -> None:
    assert len(problems_of(text)) == 1


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path, playbooks: Path) -> None:
    path = tmp_path / "dos.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load(path, [playbooks]).deployment.name == "rag"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "], ids=["lists", "maps", "blocks"])
def test_deep_nesting_is_refused(problems_of: Failer, opening: str) -> None:
    (problem,) = problems_of(changed("name: rag", "name:\n  " + opening * 100_000))
    assert "deep" in problem.what


def test_an_alias_bomb_is_refused(problems_of: Failer) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    problems = problems_of("\n".join(lines))
    assert "aliases counted each time" in problems[-1].what


def test_a_string_of_a_megabyte_is_only_too_long_for_its_place(problems_of: Failer) -> None:
    (problem,) = problems_of(changed("name: rag", f"name: {'a' * 900_000}"))
    assert len(problem.what) < 400
