"""What a playbook says of a container is in the wanted spec, rendered."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import CpudeployError
from cpudeploy.types.release import ContainerSpec, Mount
from tests.factories import DIGEST, GIB, placement, playbooks

from .wishes import context_of, instances_of


def wanted(**template) -> ContainerSpec:
    playbook = playbooks()["llama-cpp"]
    changed = msgspec.structs.replace(
        playbook, container=msgspec.structs.replace(playbook.container, **template)
    )
    return instances_of(context_of(placement()), changed)["rag_smol_0"].container


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        (None, None),
        ("4GiB", 4 * GIB),
        ("{{ alloc.parallel }}GiB", 2 * GIB),
        ("{{ alloc.weights }}", 98_000_000),
    ],
)
def test_shared_memory_is_what_the_playbook_says(written, bytes_):
    assert wanted(shm=written).shm == bytes_


def test_shared_memory_that_is_no_size_names_the_playbook():
    with pytest.raises(CpudeployError, match=r"`shm` of playbook llama-cpp gives 'smol'"):
        wanted(shm="{{ model.name }}")


def test_volumes_are_the_models_own_and_can_be_written():
    mounts = wanted(volumes={"cache": "/root/.cache"}).mounts
    assert mounts[1:] == (Mount(source="rag_smol_cache", target="/root/.cache", read_only=False),)
    assert mounts[0].read_only


def test_the_image_is_the_original_repository_with_the_digest():
    assert wanted().image == f"ghcr.io/ggml-org/llama.cpp@{DIGEST}"
