"""What args and env say of what the playbook renders: it becomes the model's own setting, or is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpudeploy.errors import ManifestError
from cpudeploy.manifest import Manifest, load, load_playbook
from cpudeploy.types.deployment import Placement

from .conftest import BASE, ENGINE

BY_HAND = """\
by_hand:
  - {flags: [-c, --ctx-size], env: [CTX], sets: context_total}
  - {flags: [--max-len], sets: context}
  - {flags: [-np, --parallel], sets: parallel}
  - {flags: [--kv-bytes], sets: kv}
  - {env: [KV_SPACE], sets: kv, unit: 1GiB}
  - {flags: [--kv], sets: params.kv}
  - {flags: [--cache], sets: params.cache}
  - {flags: [--mmap], sets: params.mmap, gives: true}
  - {flags: [--no-mmap], sets: params.mmap, gives: false}
  - {env: [BIND], sets: bind, harms: {nobind: "threads wander", auto: "a core idles"}}
refuses:
  - {flags: [--draft], env: [DRAFT], why: "its memory is not counted"}
"""
"""Lines 18 to 29 of the playbook `hand`."""

MANIFEST = """\
version: 1
name: rag
hosts: {a: {address: 10.0.0.1}}
backends:
  llama: {playbook: hand, image: "ghcr.io/x/y:b9000"}
models:
  m:
    source: {path: /w/m.gguf}
    backend: llama
    port: 8100
    on: [a]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hand.yaml").write_text(ENGINE.replace("name: engine", "name: hand") + BY_HAND)
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def loaded(folder: Path, said: str) -> Manifest:
    """`said`: lines of the model from line 12 on, indented by four."""
    path = folder / "inventory.yaml"
    path.write_text(MANIFEST + said)
    return load(path, [folder])


def placed(folder: Path, said: str) -> Placement:
    return loaded(folder, said).deployment.placements[0]


def refused(folder: Path, said: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        loaded(folder, said)
    return [
        f"{problem.where.removeprefix(f'{folder}/inventory.yaml:')} {problem.what}; {problem.do}"
        for problem in caught.value.problems
    ]


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("    args: [--max-len, '8192']\n", {"context": 8192}),
        ("    args: [--max-len, 8192]\n", {"context": 8192}),
        ("    args: [--max-len=8192]\n", {"context": 8192}),
        ("    args: [--max_len=8192]\n", {"context": 8192}),
        ("    args: [-c, 32768, -np, 4]\n", {"context": 8192, "parallel": 4}),
        ("    args: [-c, 32768]\n    parallel: 8\n", {"context": 4096, "parallel": 8}),
        ("    env: {CTX: 4096}\n", {"context": 4096, "parallel": 1}),
        ("    env: {KV_SPACE: 8}\n", {"kv": 8 << 30}),
        ("    env: {KV_SPACE: '8'}\n", {"kv": 8 << 30}),
        ("    args: [--kv-bytes=1500]\n", {"kv": 1500}),
        ("    args: [--kv, q8_0, --cache=3]\n", {"params": {"kv": "q8_0", "cache": 3}}),
        ("    args: [--mmap]\n", {"params": {"mmap": True}}),
        ("    args: [--no-mmap]\n", {"params": {"mmap": False}}),
        ("    env: {BIND: nobind}\n", {"bind": "nobind", "cpus": "auto"}),
        ("    env: {BIND: 0-3}\n", {"bind": "0-3", "cpus": "0-3"}),
        ("    env: {BIND: '4-7|0,2'}\n", {"bind": "4-7|0,2", "cpus": "0,2,4-7"}),
        ("    env: {BIND: 0-3}\n    cpus: 0-7\n", {"bind": "0-3", "cpus": "0-7"}),
    ],
)
def test_it_becomes_the_setting_and_leaves_args_and_env(folder: Path, said: str, fields: dict[str, Any]):
    placement = placed(folder, said)
    assert {name: getattr(placement, name) for name in fields} == fields
    assert placement.args == ()
    assert placement.env == {}


def test_everything_else_stays_as_written_and_in_order(folder: Path):
    said = "    args: [--seed, 3, --max-len, 10, --verbose]\n    env: {A: 1, KV_SPACE: 2, B: x}\n"
    placement = placed(folder, said)
    assert placement.args == ("--seed", "3", "--verbose")
    assert placement.env == {"A": "1", "B": "x"}


def test_layers_add_up_before_anything_is_read(folder: Path):
    path = folder / "inventory.yaml"
    below = "defaults: {env: {KV_SPACE: 4, X: '1'}, args: [--max-len=1]}\n"
    path.write_text(MANIFEST + "    env: {KV_SPACE: 8}\n    args: [--max-len=2]\n" + below)
    placement = load(path, [folder]).deployment.placements[0]
    assert (placement.kv, placement.context, placement.env) == (8 << 30, 2, {"X": "1"})


@pytest.mark.parametrize(
    ("said", "where", "words"),
    [
        (
            "    args: [--max-len=8192]\n    context: 4096\n",
            "12:12",
            "`--max-len=8192` wins over `context: 4096`",
        ),
        ("    args: [-c, 8192]\n    context: 4096\n", "12:16", "`-c=8192` wins over `context: 4096`"),
        ("    args: [-np, 4]\n    parallel: 2\n", "12:17", "`-np=4` wins over `parallel: 2`"),
        ("    env: {BIND: nobind}\n", "12:17", "`BIND=nobind`: threads wander"),
        ("    env: {BIND: auto}\n", "12:17", "`BIND=auto`: a core idles"),
    ],
)
def test_what_wins_or_harms_is_told_with_its_place(folder: Path, said: str, where: str, words: str):
    manifest = loaded(folder, said)
    (warning,) = manifest.warnings
    assert warning.where == f"{folder}/inventory.yaml:{where}"
    assert words in warning.what
    assert manifest.deployment.placements[0].warnings == (warning.what,)


def test_a_backends_parameter_gives_way_and_that_is_told(folder: Path):
    path = folder / "inventory.yaml"
    text = MANIFEST.replace('b9000"}', 'b9000", params: {kv: f16, cache: 2}}')
    path.write_text(text + "    args: [--kv=q8_0]\n")
    manifest = load(path, [folder])
    assert manifest.deployment.placements[0].params == {"kv": "q8_0"}
    assert [warning.what for warning in manifest.warnings] == ["`--kv=q8_0` wins over `params.kv: f16`"]


@pytest.mark.parametrize(
    "said",
    ["    args: [--max-len=8192]\n    context: 8192\n", "    env: {BIND: 0-3}\n", "    args: [--kv=f16]\n"],
)
def test_where_nothing_is_lost_nothing_is_told(folder: Path, said: str):
    assert loaded(folder, said).warnings == ()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "    env: {KV_SPACE: '1.5'}\n",
            "12:21 `KV_SPACE` can't be `1.5`; write a whole number of 1GiB, at least 1",
        ),
        ("    env: {KV_SPACE: -1}\n", "12:21 `KV_SPACE` can't be `-1`; write a whole number of 1GiB"),
        (
            "    env: {KV_SPACE: 0}\n",
            "12:21 `KV_SPACE` can't be `0`; write a whole number of 1GiB, at least 1",
        ),
        ("    env: {KV_SPACE: auto}\n", "12:21 `KV_SPACE` can't be `auto`"),
        ("    env: {KV_SPACE: ''}\n", "12:21 `KV_SPACE` can't be ``"),
        (
            "    env: {KV_SPACE: 99999999}\n",
            "12:21 `KV_SPACE` can't be `99999999`; write a whole number of 1GiB, at most 1048576",
        ),
        (f"    args: [--max-len, '{'9' * 5000}']\n", "12:23 `--max-len` can't be `999"),
        ("    args: [--max-len, -1]\n", "12:23 `--max-len` can't be `-1`"),
        ("    args: [--max-len, 8k]\n", "12:23 `--max-len` can't be `8k`; write a whole number, at least 1"),
        (
            "    args: [--max-len, '{{ model.context }}']\n",
            "12:23 `--max-len` can't be `{{ model.context }}`",
        ),
        ("    args: [--max-len=٣]\n", "12:12 `--max-len` can't be `٣`"),
        (
            "    args: [--parallel=2000]\n",
            "12:12 `--parallel` can't be `2000`; write a whole number, at most 1024",
        ),
        ("    args: [--max-len]\n", "12:12 `--max-len` lacks its value; write it behind: --max-len=…"),
        ("    args: [--max-len, --seed]\n", "12:12 `--max-len` lacks its value"),
        ("    args: [--max-len, --parallel=2]\n", "12:12 `--max-len` lacks its value"),
        (
            "    args: [--max-len.x=3]\n",
            "12:12 `--max-len.x` sets a part of `--max-len`, which has none; write `--max-len` alone",
        ),
        ("    args: [--, --seed]\n", "12:12 `--` ends the flags: what stands behind it is none; remove it"),
        ("    args: [--mmap=1]\n", "12:12 `--mmap` takes no value"),
        ("    args: [--cache=much]\n", "12:12 `--cache` is of another type"),
        ("    args: [-c, 3]\n    parallel: 4\n", "12:16 `-c` is less than a token for each of 4 requests"),
        (
            "    env: {BIND: all}\n",
            "12:17 `BIND` can't be `all`; write nobind, auto, or the CPUs of each rank: 0-3",
        ),
        ("    env: {BIND: 3-0}\n", "12:17 `BIND` can't be `3-0`: a range goes up"),
        ("    env: {BIND: '0-3|3-5'}\n", "12:17 `BIND` can't be `0-3|3-5`: CPU 3 is there twice"),
        ("    env: {BIND: '0-3|'}\n", "12:17 `BIND` can't be `0-3|`"),
        ("    env: {BIND: '0-99999'}\n", "12:17 `BIND` can't be `0-99999`"),
        (
            "    args: [--max-len=1, --max-len=2]\n",
            "12:25 `--max-len` says again what `--max-len` says at INVENTORY:12:12; keep one of them",
        ),
        (
            "    args: [--kv-bytes=1]\n    env: {KV_SPACE: 1}\n",
            "13:21 `KV_SPACE` says again what `--kv-bytes` says at INVENTORY:12:12; keep one of them",
        ),
        ("    args: [--draft, x]\n", "12:12 `--draft` can't be given in `args`: its memory is not counted"),
        ("    args: [--draft.model=x]\n", "12:12 `--draft` can't be given in `args`"),
        ("    env: {DRAFT: x}\n", "12:11 `DRAFT` can't be set in `env`: its memory is not counted"),
        ("    args: [--dra=x]\n", "12:12 `--dra=x` is `--draft` cut short; write the flag out"),
        ("    args: [--max-l, 5]\n", "12:12 `--max-l` is `--max-len` cut short"),
        ("    args: ['--max-len 5']\n", "12:12 `--max-len 5` is one argument with a space in it"),
    ],
)
def test_nonsense_is_an_error_at_its_place(folder: Path, said: str, told: str):
    (only,) = refused(folder, said)
    assert only.startswith(told.replace("INVENTORY", f"{folder}/inventory.yaml"))


def test_two_flags_of_one_setting_are_an_error(folder: Path):
    (only,) = refused(folder, "    args: [--max-len=1, -c, 2]\n")
    assert "`-c` says again what `--max-len` says" in only


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("sets: parallel", "sets: threads", "context, context_total, parallel, kv, bind or params.NAME"),
        ("sets: params.kv", "sets: params.kvv", "no parameter `kvv`"),
        ("unit: 1GiB", "unit: 1XB", "write a size such as"),
        ("sets: kv}", "sets: context, unit: 1GiB}", "`unit` is for what sets `kv`"),
        ("gives: false", "gives: 3", "the value of `mmap` is of another type"),
        (
            "{flags: [--max-len], sets: context}",
            "{flags: [--max-len], sets: context, gives: 3}",
            "sets a parameter",
        ),
        ("flags: [--max-len]", "flags: [--draft]", "`--draft` is in `refuses` as well"),
        ("env: [CTX], ", "env: [DRAFT], ", "`DRAFT` is in `refuses` as well"),
    ],
)
def test_a_playbook_that_contradicts_itself_is_refused(folder: Path, old: str, new: str, told: str):
    text = (folder / "hand.yaml").read_text()
    assert text.count(old) == 1
    (folder / "hand.yaml").write_text(text.replace(old, new))
    with pytest.raises(ManifestError) as caught:
        load_playbook("hand", [folder])
    (problem,) = caught.value.problems
    assert told in f"{problem.what} {problem.do}"
