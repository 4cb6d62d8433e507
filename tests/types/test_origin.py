"""Two people's clones of one repository are one origin."""

from __future__ import annotations

import itertools

import pytest

from cpudeploy.types.origin import same_origin

CLONES = (
    "git@forge.corp:llm/rag.git small/inventory.yaml",
    "ssh://git@forge.corp:2222/llm/rag.git small/inventory.yaml",
    "https://forge.corp/llm/rag.git small/inventory.yaml",
    "http://Forge.corp:8080/llm/rag/ small/inventory.yaml",
)
OTHERS = (
    "git@forge.corp:llm/rag.git inventory.yaml",
    "git@forge.corp:llm/rag2.git small/inventory.yaml",
    "git@forge.other:llm/rag.git small/inventory.yaml",
    "/srv/git/rag.git small/inventory.yaml",
    "file:///srv/git/rag.git small/inventory.yaml",
    "ops@desk:/srv/rag/inventory.yaml",
    "ops@lap:/srv/rag/inventory.yaml",
    "ops@desk:/srv/our models/inventory.yaml",
    "ops@desk:/srv/our manifests/inventory.yaml",
    "git@h:2024/infra.git inventory.yaml",
    "git@h:2025/infra.git inventory.yaml",
    "alice@srv:infra.git inventory.yaml",
    "bob@srv:infra.git inventory.yaml",
    "http://localhost:3000/llm/rag inventory.yaml",
    "http://localhost:8929/llm/rag inventory.yaml",
    "ssh://h:2201/llm/rag inventory.yaml",
    "ssh://h:2202/llm/rag inventory.yaml",
    "git@h:/srv/x inventory.yaml",
    "git@h:srv/x inventory.yaml",
    "",
)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(CLONES, 2)))
def test_a_repository_is_the_same_however_it_was_cloned(one: str, other: str):
    assert same_origin(one, other)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations((CLONES[0], *OTHERS), 2)))
def test_another_repository_path_or_machine_is_another(one: str, other: str):
    assert not same_origin(one, other)


@pytest.mark.parametrize("origin", OTHERS)
def test_each_is_its_own(origin: str):
    assert same_origin(origin, origin)
