"""A model that does not fit is refused with numbers that would."""

from __future__ import annotations

import re

import msgspec
import pytest

from cpudeploy.errors import DoesNotFit
from cpudeploy.sizing import allocate
from tests.factories import GIB, deployment, facts, placement, playbooks, resolved, shape

MIB = 1 << 20


def refused(host, *placements):
    """The advice of the refusal."""
    with pytest.raises(DoesNotFit) as caught:
        allocations(host, *placements)
    return caught.value.do


def allocations(host, *placements):
    return allocate(deployment(*placements), "one", host, resolved(*placements), playbooks())


def number(word, advice):
    return int(re.search(rf"{word} (\d+)", advice)[1])


@pytest.mark.parametrize("word", ["context", "parallel"])
def test_what_is_advised_fits_and_the_next_more_does_not(word):
    host = facts(memory=GIB)
    big = placement(context=8192, parallel=4)
    advised = number(word, refused(host, big))
    assert allocations(host, msgspec.structs.replace(big, **{word: advised}))
    more = msgspec.structs.replace(big, **{word: advised + (256 if word == "context" else 1)})
    refused(host, more)


def test_one_request_at_a_time_can_only_get_a_smaller_context():
    advice = refused(facts(memory=GIB - 192 * MIB), placement(context=8192, parallel=1))
    assert "context" in advice
    assert "parallel" not in advice


def test_weights_alone_too_large_leave_another_model_or_host():
    advice = refused(facts(memory=384 * MIB + 64 * MIB), placement())
    assert "quantisation" in advice
    assert "another host" in advice
    assert "would fit" not in advice


def test_of_two_models_each_that_could_make_room_alone_is_told():
    host = facts(memory=GIB + 512 * MIB)
    advice = refused(host, placement("a", context=8192, parallel=4), placement("b", port=8101, parallel=1))
    assert "a would fit" in advice
    assert "b would fit" not in advice


def test_memory_that_the_manifest_sets_is_not_answered_with_a_smaller_context():
    advice = refused(facts(memory=GIB), placement(memory=4 * GIB))
    assert "context" not in advice
    assert "leave `memory` out" in advice


def test_a_model_that_just_fits_is_not_refused():
    assert allocations(facts(memory=16 * GIB), placement(context=shape().context_length, parallel=8))
