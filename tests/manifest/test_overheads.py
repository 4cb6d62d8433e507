"""What an engine takes beside weights and cache goes with the version of a backend's image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cpudeploy.errors import ManifestError
from cpudeploy.manifest import Manifest, load, load_playbook
from cpudeploy.types.playbook import Overhead

from .conftest import ENGINE, GOOD

Loader = Callable[[str], Manifest]
VERSIONS = """\
overheads:
  - {when: "image.version < 9000", engine_mib: 300, kv: GiB}
  - {when: "param.mmap == false", engine_mib: 200}
  - {engine_mib: 100, compile_mib: 50, rank_mib: 25, reads_limit: true}
"""


@pytest.fixture
def paged(tmp_path: Path) -> Path:
    text = ENGINE.replace("requires: [base]\n", "").replace("memory: gguf", "memory: paged")
    (tmp_path / "engine.yaml").write_text(text + VERSIONS)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "overhead"),
    [
        ("", "", Overhead(engine_mib=100, compile_mib=50, rank_mib=25, reads_limit=True)),
        ("b9000", "b8999", Overhead(when="image.version < 9000", engine_mib=300, kv="GiB")),
        ("b9000", "latest", Overhead(engine_mib=100, compile_mib=50, rank_mib=25, reads_limit=True)),
        (
            'b9000"',
            'b9000", params: {mmap: false}',
            Overhead(when="param.mmap == false", engine_mib=200),
        ),
    ],
    ids=["newest", "older", "unknown", "parameter"],
)
def test_the_first_entry_that_holds_is_the_backends(paged: Path, old: str, new: str, overhead: Overhead):
    inventory = paged / "inventory.yaml"
    inventory.write_text(GOOD.replace(old, new) if old else GOOD)
    assert load(inventory, [paged]).deployment.backends["llama"].overhead == overhead


def test_an_engine_that_says_nothing_of_it_has_none(load_text: Loader):
    assert load_text(GOOD).deployment.backends["llama"].overhead is None


def test_paged_memory_needs_them(paged: Path):
    (paged / "engine.yaml").write_text((paged / "engine.yaml").read_text().replace(VERSIONS, ""))
    with pytest.raises(ManifestError, match="lacks `overheads`"):
        load_playbook("engine", [paged])


def test_a_condition_knows_only_what_is_known_before_anything_is_allotted(paged: Path):
    text = (paged / "engine.yaml").read_text().replace("image.version < 9000", "alloc.parallel < 2")
    (paged / "engine.yaml").write_text(text)
    with pytest.raises(ManifestError, match="alloc"):
        load_playbook("engine", [paged])
