"""An image for another processor is refused before anything is fetched."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.platform import refuse_wrong_platform
from cpudeploy.types.base import Unknown
from tests.factories import facts, placement, resolved

from .wishes import context_of

IMAGE = resolved(placement()).images["llama"]


def on(arch):
    os = msgspec.structs.replace(facts().os, arch=arch)
    return context_of(found=facts(os=os))


def offering(*platforms: str):
    return msgspec.structs.replace(IMAGE, platforms=platforms)


@pytest.mark.parametrize("arch", ["amd64", "arm64", Unknown(unknown="nobody looked")])
def test_what_is_offered_or_may_be_is_fine(arch):
    refuse_wrong_platform(on(arch), offering("linux/amd64", "linux/arm64/v8"))
    refuse_wrong_platform(on(arch), offering())


@pytest.mark.parametrize("platforms", [("linux/amd64",), ("linux/arm/v7", "windows/arm64")])
def test_what_is_not_is_refused_with_what_there_is(platforms):
    with pytest.raises(HostError, match="not built for linux/arm64") as caught:
        refuse_wrong_platform(on("arm64"), offering(*platforms))
    assert platforms[0] in caught.value.what
    assert caught.value.where == "one"
