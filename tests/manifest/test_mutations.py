"""Inventories that ship, damaged in every way we can think of: each is read or refused in words.

CPUDEPLOY_MUTATIONS says how many are tried (500 by itself), CPUDEPLOY_MUTATION_SEED where counting begins. A
failure names its number: that one alone is tried with CPUDEPLOY_MUTATIONS=1 and its number as the seed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cpudeploy.errors import ManifestError
from cpudeploy.manifest import Manifest, load

ROOT = Path(__file__).parents[2]
COUNT = int(os.environ.get("CPUDEPLOY_MUTATIONS", "500"))
SEED = int(os.environ.get("CPUDEPLOY_MUTATION_SEED", "0"))
FILES = sorted((ROOT / "inventories").glob("*.yaml"))

Tree = Any
Path_ = tuple[Any, ...]


class _Texts(yaml.SafeLoader):
    """Every scalar as its text: what is written anew is what was there, `on` included."""


_Texts.yaml_implicit_resolvers = {}


SCRAPS = [
    *("null", "~", "no", "on", "010", "0x1F", "0o17", "1e999", ".nan", "-.inf", "-0", "1_000", "2001-01-01", "=", "<<"),
    *("- ", ": ", "? ", "&a ", "*a ", "&a *a", "!!python/object:os.system ", "!x ", "---\n", "...\n", "%YAML 1.1\n"),
    *("\t", "\r", "\n", "\n\n  ", "\x00", "\x1b[2J", "\x7f", "\x85", "\u2028", "\ufeff", "\u202e", "\ud800", "жук", "😀"),
    *("[", "]", "{", "}", "'", '"', '"\\x', '"\\UFFFFFFFF"', "|", ">-", "#", "@", "`", "%", ",", "{{", "{% for x in y %}"),
    *("../../etc/passwd", "-rf /", "$(id)", "`id`", "a;b", "http://u:p@h/", "[1:3]", "[01:1000]", "x-[1:2]-[3:4]"),
    *("9" * 4000, "a" * 5000, "[" * 60, "{a: " * 60, "{from_env: A}", "none", "auto", "numa:99999", "0-99999", "8XB"),
    *("include: [inventory.yaml]\n", "include: [/dev/zero, /dev/stdin, /, ~x/y]\n", "groups: {rag: {groups: {rag: {}}}}\n"),
]  # fmt: skip
VALUES: list[Callable[[random.Random], Tree]] = [
    lambda _: None,
    lambda _: True,
    lambda _: 0,
    lambda _: -1,
    lambda _: 2**63,
    lambda _: 10**400,
    lambda _: 0.1,
    lambda _: float("inf"),
    lambda _: "",
    lambda _: [],
    lambda _: {},
    lambda _: [[]],
    lambda _: {"": ""},
    lambda _: {"a": {"a": {"a": {"a": None}}}},
    lambda dice: dice.choice(SCRAPS),
    lambda dice: [dice.choice(SCRAPS)] * dice.randrange(1, 4),
    lambda dice: {dice.choice(SCRAPS): dice.choice(SCRAPS)},
    lambda dice: _nested(dice.randrange(1, 80)),
    lambda dice: chr(dice.choice([0x0, 0x9, 0xA0, 0xAD, 0x202E, 0x1F600, 0xE000, 0xFFFE, 0x10FFFF])) * 3,
]


def _nested(depth: int) -> Tree:
    tree: Tree = "x"
    for level in range(depth):
        tree = [tree] if level % 2 else {"hosts": tree}
    return tree


def _places(tree: Tree, path: Path_ = ()) -> list[Path_]:
    if len(path) > 12:
        return [path]  # a part may have been put into itself
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(inner for key, child in children for inner in _places(child, (*path, key)))]


def _at(tree: Tree, path: Path_) -> Tree:
    for part in path:
        tree = tree[part]
    return tree


def _mutate_tree(text: str, dice: random.Random) -> str:
    """Values of other types, moved, swapped, doubled and lost parts; written anew, sometimes with aliases."""
    tree = yaml.load(text, _Texts)
    for _ in range(dice.randrange(1, 4)):
        places = _places(tree)[1:]
        if not places:
            break
        path = dice.choice(places)
        inner, key = _at(tree, path[:-1]), path[-1]
        other = _at(tree, dice.choice(places))
        match dice.randrange(7):
            case 0:
                inner[key] = dice.choice(VALUES)(dice)
            case 1:
                del inner[key]
            case 2:
                inner[key] = other if dice.random() < 0.5 else yaml.load(yaml.safe_dump(other), _Texts)
            case 3 if isinstance(inner, dict):
                inner[dice.choice([*SCRAPS, "hosts", "groups", "on", "source", "x-[1:4]"])] = inner.pop(key)
            case 4 if isinstance(inner, list):
                inner.extend(inner[:] * dice.randrange(1, 3))
            case 5:
                inner[key] = [inner[key]] if dice.random() < 0.5 else {"a": inner[key]}
            case _:
                inner[key] = f"{inner[key]}{dice.choice(SCRAPS)}"
    try:
        return str(yaml.safe_dump(tree, allow_unicode=dice.random() < 0.5, sort_keys=False, width=10_000))
    except (RecursionError, yaml.YAMLError):
        return _mutate_text(text, dice)


def _mutate_text(text: str, dice: random.Random) -> str:
    """Pieces cut out, pasted, repeated and bent, as an editor and a careless hand do."""
    for _ in range(dice.randrange(1, 4)):
        lines, at = text.split("\n"), dice.randrange(len(text) + 1)
        line = dice.randrange(len(lines))
        match dice.randrange(7):
            case 0:
                text = text[:at] + dice.choice(SCRAPS) + text[at + dice.randrange(30) :]
            case 1:
                text = "\n".join([*lines[:line], lines[dice.randrange(len(lines))], *lines[line:]])
            case 2:
                text = "\n".join([*lines[: line + 1], lines[line], *lines[line + 1 :]])
            case 3:
                text = text[:at]
            case 4:
                text = "\n".join(
                    [*lines[:line], " " * dice.randrange(1, 4) + lines[line], *lines[line + 1 :]]
                )
            case 5:
                text = text[:at] + chr(dice.randrange(1, 0x3000)) + text[at:]
            case _:
                text = "\n".join([*lines[:line], *lines[line + dice.randrange(1, 6) :]])
    return text


def _bomb(text: str, dice: random.Random) -> str:
    """Anchors of anchors: a few lines that stand for more values than anybody has room for."""
    levels = dice.randrange(2, 12)
    kind = dice.choice(["[{}]", "{{{}}}"])
    names = [f"&b{level} " for level in range(levels)]
    inner = [
        ", ".join(f"*b{level}" if kind == "[{}]" else f"k{n}: *b{level}" for n in range(9))
        for level in range(levels)
    ]
    bomb = "\n".join(
        [f"b0: {names[0]}[x, x]"]
        + [f"b{level + 1}: {names[level + 1]}{kind.format(inner[level])}" for level in range(levels - 1)]
    )
    place = dice.choice(["", "\nlabels: ", "\ngroups:\n  g: {hosts: ", "\nmodels: "])
    return f"{bomb}\n{text}{place}*b{levels - 1}\n"


def _doubled(text: str, dice: random.Random) -> str:
    """A part of the file once more, indented as it was or not: repeated keys."""
    lines = text.split("\n")
    first = dice.randrange(len(lines))
    last = first + dice.randrange(1, 12)
    return "\n".join([*lines[:last], *lines[first:last], *lines[last:]])


MUTATIONS = (_mutate_text, _mutate_text, _mutate_tree, _mutate_tree, _mutate_tree, _bomb, _doubled)


def _mutated(path: Path, dice: random.Random) -> str:
    return dice.choice(MUTATIONS)(path.read_text("utf-8"), dice)


def _ends_in_words(path: Path, folder: Path) -> bool:
    """Whether it is a manifest; otherwise what is said has places and can be printed."""
    try:
        manifest = load(path)
    except ManifestError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.where.startswith(str(folder)) or "playbooks" in problem.where
            assert (problem.what + problem.do).isprintable()
            assert len(problem.what) + len(problem.do) < 2000
        str(error).encode()
        return False
    assert isinstance(manifest, Manifest)
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The inventories beside the files they include."""
    return Path(shutil.copytree(ROOT / "inventories", tmp_path / "inventories"))


def test_every_damaged_inventory_ends_in_a_manifest_or_in_words(folder: Path) -> None:
    sound = 0
    for number in range(SEED, SEED + COUNT):
        dice = random.Random(number)
        part = folder / "site" / "common.yaml"
        original = part.read_text("utf-8")
        path = folder / "inventory.yaml"
        if number % 10 == 9:  # the file it includes is the damaged one
            part.write_bytes(_mutated(part, dice).encode("utf-8", "surrogatepass"))
            shutil.copy(folder / "full.yaml", path)
        else:
            path.write_bytes(
                _mutated(folder / dice.choice(FILES).name, dice).encode("utf-8", "surrogatepass")
            )
        try:
            sound += _ends_in_words(path, folder)
        except Exception as error:
            raise AssertionError(f"mutation {number} ended in {type(error).__name__}: {error}") from error
        finally:
            part.write_text(original, "utf-8")
    # Damage that never hurts would prove nothing, nor would damage that never leaves a manifest.
    assert COUNT < 100 or COUNT // 50 < sound < COUNT // 2
