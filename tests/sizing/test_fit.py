"""A model that does not fit is refused with what would: every number of the advice is tried here."""

from __future__ import annotations

import re

import msgspec
import pytest

from cpudeploy.errors import DoesNotFit
from cpudeploy.sizing import allocate
from cpudeploy.types.deployment import HostPath
from cpudeploy.types.playbook import Playbook
from cpudeploy.types.shape import Variant
from tests.factories import GIB, cores, deployment, facts, placement, playbooks, resolved, shape, tensors

MIB = 1 << 20


def with_params(**defaults) -> dict[str, Playbook]:
    """The shipped playbooks, llama.cpp's with other defaults."""
    known = playbooks()
    llama = known["llama-cpp"]
    others = {
        name: msgspec.structs.replace(llama.parameters[name], default=value)
        for name, value in defaults.items()
    }
    return {**known, "llama-cpp": msgspec.structs.replace(llama, parameters={**llama.parameters, **others})}


def allocations(host, *placements, known=None, books=None, fleet=None, hosts=("one",)):
    known = known or resolved(*placements)
    wanted = deployment(*placements, hosts=hosts)
    return allocate(wanted, "one", host, known, books or playbooks(), fleet=fleet)


def refused(host, *placements, **more):
    """The advice of the refusal."""
    with pytest.raises(DoesNotFit) as caught:
        allocations(host, *placements, **more)
    return caught.value.do


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
    advice = refused(facts(memory=GIB - 288 * MIB), placement(context=8192, parallel=1))
    assert "context" in advice
    assert "parallel" not in advice


def test_a_wish_beyond_all_measure_is_answered_as_well():
    """Such a file does not tell what it was trained for; trying one context after the other would never end."""
    endless = placement(context=10**12, parallel=10**9)
    known = resolved(endless, shape=shape(context_length=0))
    advised = number(
        "context", refused(facts(memory=GIB), placement(context=10**12, parallel=1), known=known)
    )
    assert allocations(facts(memory=GIB), placement(context=advised, parallel=1), known=known)
    assert "would fit" not in refused(facts(memory=GIB), endless, known=known)


def test_weights_alone_too_large_leave_another_model_or_host():
    advice = refused(facts(memory=384 * MIB + 64 * MIB), placement())
    assert "quantisation" in advice
    assert "another host" in advice
    assert "would fit" not in advice


def test_of_two_models_each_that_could_make_room_alone_is_told():
    host = facts(memory=GIB + 448 * MIB)
    advice = refused(host, placement("a", context=8192, parallel=4), placement("b", port=8101, parallel=1))
    assert "a would fit" in advice
    assert "b would fit" not in advice


def test_a_narrower_cache_is_advised_where_the_playbook_knows_it_and_it_fits():
    big = placement(context=8192, parallel=8)
    known = resolved(big, shape=shape(vocabulary=1000))
    narrow = allocations(facts(), big, known=known, books=with_params(kv_type="q8_0"))["smol"].memory
    fits, small = facts(memory=narrow + 384 * MIB), facts(memory=narrow + 368 * MIB)
    wide = with_params(kv_type="f16")
    assert "kv_type q8_0 among the params of backend llama" in refused(fits, big, known=known, books=wide)
    assert "kv_type" not in refused(small, big, known=known, books=wide)


class TestQuantisations:
    BIG = tensors(size=4 * GIB, matrices={"F16": 4 * GIB})
    VARIANTS = (
        Variant(quant="Q8_0", size=3 * GIB),
        Variant(quant="Q4_K_M", size=GIB),
        Variant(quant="Q2_K", size=GIB // 2),
    )

    def known(self, wanted, size=4 * GIB):
        base = resolved(wanted, tensors=self.BIG)
        weights = base.weights["smol@one"]
        (file,) = weights.files
        weights = msgspec.structs.replace(
            weights, files=(msgspec.structs.replace(file, size=size),), variants=self.VARIANTS
        )
        return msgspec.structs.replace(base, weights={"smol@one": weights})

    def test_the_largest_that_fits_whatever_its_matrices_are(self):
        wanted = placement()
        advice = refused(facts(memory=3 * GIB), wanted, known=self.known(wanted))
        assert "quant Q4_K_M" in advice
        assert "Q2_K" not in advice

    def test_none_where_none_fits(self):
        wanted = placement()
        assert "quant Q" not in refused(facts(memory=GIB), wanted, known=self.known(wanted))


class TestOtherHosts:
    TWO = ("one", "two")

    def test_one_with_room_is_named(self):
        big = placement(context=8192, parallel=4)
        fleet = {"one": facts(memory=GIB), "two": facts("two")}
        advice = refused(fleet["one"], big, fleet=fleet, hosts=self.TWO)
        assert "move smol to two, where it fits" in advice

    def test_one_without_room_is_not(self):
        big = placement(context=8192, parallel=4)
        fleet = {"one": facts(memory=GIB), "two": facts("two", memory=GIB)}
        advice = refused(fleet["one"], big, fleet=fleet, hosts=self.TWO)
        assert "to two" not in advice
        assert "another host" in advice

    def test_nor_one_whose_room_another_model_has(self):
        big = placement(context=8192, parallel=4)
        there = msgspec.structs.replace(placement("other", context=8192, parallel=8), host="two")
        fleet = {"one": facts(memory=GIB), "two": facts("two", memory=2 * GIB)}
        alone = refused(fleet["one"], big, fleet=fleet, hosts=self.TWO)
        assert "to two" in alone
        assert "to two" not in refused(fleet["one"], big, there, fleet=fleet, hosts=self.TWO)

    def test_nor_one_of_another_architecture(self):
        big = placement(context=8192, parallel=4)
        two = facts("two")
        arm = msgspec.structs.replace(two.os, arch="arm64")
        fleet = {"one": facts(memory=GIB), "two": msgspec.structs.replace(two, os=arm)}
        assert "to two" not in refused(fleet["one"], big, fleet=fleet, hosts=self.TWO)

    def test_a_file_that_lies_on_a_host_stays_there(self):
        big = placement(context=8192, parallel=4, source=HostPath(path="/m.gguf"))
        fleet = {"one": facts(memory=GIB), "two": facts("two")}
        assert "to two" not in refused(fleet["one"], big, fleet=fleet, hosts=self.TWO)

    def test_cores_that_are_short_send_a_model_away_too(self):
        two = (placement("a", cpus="cores:2"), placement("b", cpus="cores:2", port=8101))
        fleet = {"one": facts(cores=cores(2)), "two": facts("two")}
        advice = refused(fleet["one"], *two, fleet=fleet, hosts=self.TWO)
        assert "move a to two" in advice
        assert "shared" in advice


def test_memory_that_the_manifest_sets_is_not_answered_with_a_smaller_context():
    advice = refused(facts(memory=GIB), placement(memory=4 * GIB))
    assert "context" not in advice
    assert "leave `memory` out" in advice


def test_memory_that_does_not_cover_the_need_says_what_it_would_cover():
    big = placement(context=8192, parallel=4, memory=512 * MIB)
    advised = number("context", refused(facts(), big))
    assert allocations(facts(), msgspec.structs.replace(big, context=advised))


def test_a_model_that_just_fits_is_not_refused():
    assert allocations(facts(memory=16 * GIB), placement(context=shape().context_length, parallel=8))
