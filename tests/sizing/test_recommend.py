"""What is recommended holds: it fits when it is written into the manifest, and nothing larger does."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.errors import DoesNotFit
from cpudeploy.sizing import allocate
from cpudeploy.sizing.recommend import recommend
from cpudeploy.types.base import Unknown
from cpudeploy.types.deployment import HostPath, HuggingFace
from cpudeploy.types.recommendation import Recommendation
from cpudeploy.types.resolved import UnreadFile
from cpudeploy.types.shape import Variant
from tests.factories import GIB, cores, deployment, facts, placement, playbooks, resolved, shape, tensors
from tests.sizing.machines import numa

MIB = 1 << 20
MB = 1_000_000
VARIANTS = (
    Variant(quant="Q2_K", size=40 * MB),
    Variant(quant="Q4_K_M", size=70 * MB),
    Variant(quant="Q8_0", size=140 * MB),
    Variant(quant="F16", size=260 * MB),
)


def repo(quant="Q5_K_M"):
    return HuggingFace(repo="org/name-GGUF", quant=quant)


def world(*placements, variants=VARIANTS, **changes):
    """Everything resolved, with the other quantisations of its repository."""
    found = resolved(
        *placements, tensors=changes.pop("tensors", tensors(matrices={"Q5_K": 80 * MB})), **changes
    )
    return msgspec.structs.replace(
        found,
        weights={
            key: msgspec.structs.replace(each, variants=variants) for key, each in found.weights.items()
        },
    )


def asked(host, wish, *others, known=None, **more) -> Recommendation:
    everyone = (*others, wish)
    return recommend(
        deployment(*everyone, **more), wish, host, known or world(*everyone), playbooks(), written=wish
    )


def written(host, wish, *others, known, **changes):
    """What the manifest gets with `changes` written into it."""
    everyone = (*others, msgspec.structs.replace(wish, **changes))
    return allocate(deployment(*everyone), "one", host, known, playbooks())[wish.model]


def as_file(known, wish, variant, matrices):
    """As if the manifest named `variant`, and its file turned out to be made of `matrices`."""
    key = f"{wish.model}@{wish.host}"
    file = UnreadFile(name="x.gguf", size=variant.size, sha256=Unknown(unknown="test"))
    changed = msgspec.structs.replace(
        known.weights[key], files=(file,), tensors=tensors(size=variant.size, matrices=matrices)
    )
    return msgspec.structs.replace(known, weights={**known.weights, key: changed})


def chosen(told: Recommendation):
    return next(choice for choice in told.choices if choice.chosen)


sizes = st.integers(500 * MIB, 6 * GIB)
contexts = st.integers(1, 8192)
requests = st.integers(1, 12)


@settings(max_examples=25, deadline=None)
@given(sizes, contexts, requests, st.booleans())
def test_what_is_said_to_fit_is_accepted_and_the_next_larger_refused(memory, context, parallel, beside):
    host = facts(memory=memory)
    wish = placement("big", context=context, parallel=parallel, source=repo())
    others = (placement("small", port=8101, context=512, parallel=1),) if beside else ()
    known = world(*others, wish)
    told = asked(host, wish, *others, known=known)
    if told.problem:  # the other one alone is too much
        with pytest.raises(DoesNotFit):
            allocate(deployment(*others), "one", host, known, playbooks())
        return
    best = chosen(told)
    for way in best.largest:
        got = written(host, wish, *others, known=known, context=way.context, parallel=way.parallel)
        assert got.memory == way.memory
        larger = [each for each in {1024, 2048, 4096, 8192, context} if each > way.context]
        more = [each for each in {1, 2, 4, 8, 16, parallel} if each > way.parallel]
        if larger:
            with pytest.raises(DoesNotFit):
                written(host, wish, *others, known=known, context=min(larger), parallel=way.parallel)
        if more:
            with pytest.raises(DoesNotFit):
                written(host, wish, *others, known=known, context=way.context, parallel=min(more))
    if best.wish is None:
        with pytest.raises(DoesNotFit):
            written(host, wish, *others, known=known)
    else:
        assert written(host, wish, *others, known=known).memory == best.wish.memory


@settings(max_examples=25, deadline=None)
@given(sizes, contexts, requests, st.sampled_from(["F16", "Q4_0", "family"]))
def test_another_quantisation_that_fits_does_so_whatever_its_file_turns_out_to_be(
    memory, context, parallel, kind
):
    host = facts(memory=memory)
    wish = placement(context=context, parallel=parallel, source=repo())
    known = world(wish)
    told = asked(host, wish, known=known)
    for variant in VARIANTS:
        row = next(choice for choice in told.choices if choice.quant == variant.quant)
        family = variant.quant.removesuffix("_M")
        if variant.quant in ("F16", "Q8_0") and kind != "family":
            continue  # all of such a file is of the type it is named after
        real = as_file(known, wish, variant, {family if kind == "family" else kind: int(variant.size * 0.9)})
        for way in row.largest:
            assert written(host, wish, known=real, context=way.context, parallel=way.parallel)


@settings(max_examples=25, deadline=None)
@given(sizes, contexts, requests, st.sampled_from(["Q2_K", "Q4_K_M", "F16"]))
def test_what_is_advised_is_accepted_when_it_is_written(memory, context, parallel, quant):
    host = facts(memory=memory)
    wish = placement(context=context, parallel=parallel, source=repo(quant))
    known = world(wish, variants=tuple(each for each in VARIANTS if each.quant != quant))
    told = asked(host, wish, known=known)
    if told.advice is None:
        assert not any(choice.largest for choice in told.choices)
        return
    advice = told.advice
    assert advice.context <= context and advice.parallel <= parallel
    files = [known]
    if advice.quant != quant:
        variant = next(each for each in VARIANTS if each.quant == advice.quant)
        own = advice.quant.removesuffix("_M")
        kinds = {own} if own in ("F16", "Q8_0") else {own, "Q4_0", "F16"}
        files = [as_file(known, wish, variant, {kind: int(variant.size * 0.9)}) for kind in kinds]
    for file in files:
        assert written(host, wish, known=file, context=advice.context, parallel=advice.parallel)


def test_files_come_smallest_first_and_the_manifests_own_is_marked():
    told = asked(facts(), placement(source=repo()))
    assert [choice.size for choice in told.choices] == sorted(choice.size for choice in told.choices)
    assert [choice.quant for choice in told.choices if choice.chosen] == ["Q5_K_M"]
    assert [choice.quant for choice in told.choices if not choice.estimated] == ["Q5_K_M"]


def test_a_source_that_names_no_quantisation_is_called_by_most_of_its_matrices():
    wish = placement(source=HuggingFace(repo="org/name"))
    known = world(wish, tensors=tensors(matrices={"Q6_K": 10 * MB, "Q4_K": 70 * MB}), variants=())
    assert [choice.quant for choice in asked(facts(), wish, known=known).choices] == ["Q4_K"]


def test_what_does_not_fit_says_why_and_what_to_do():
    told = asked(facts(memory=GIB), placement(context=8192, parallel=8, source=repo()))
    row = chosen(told)
    assert row.wish is None
    assert "can be given" in row.why and "do:" in row.why


def test_without_a_measured_bandwidth_no_speed_is_told():
    assert all(choice.speed is None for choice in asked(facts(), placement(source=repo())).choices)


def with_bandwidth(host, bandwidth=40 * 10**9):
    return msgspec.structs.replace(host, memory=msgspec.structs.replace(host.memory, bandwidth=bandwidth))


def test_a_smaller_quantisation_is_faster():
    told = asked(with_bandwidth(facts()), placement(source=repo()))
    speeds = [choice.speed.one.high for choice in told.choices if choice.speed]
    assert len(speeds) >= 3
    assert speeds == sorted(speeds, reverse=True)


def test_half_the_cores_can_count_on_half_the_bandwidth_only():
    host = with_bandwidth(facts(cores=cores(8)), 20 * 10**9)
    big = tensors(size=4000 * MB, matrices={"Q8_0": 4000 * MB})
    wish = placement("a", source=repo(), cpus="cores:6")
    half = placement("a", source=repo(), cpus="cores:3")
    whole, part = (asked(host, each, known=world(each, tensors=big, variants=())) for each in (wish, half))
    assert chosen(part).speed.one.low < chosen(whole).speed.one.low


def test_cores_in_two_numa_nodes_make_the_range_slower():
    host = with_bandwidth(numa(4, 2), 20 * 10**9)
    big = tensors(size=4000 * MB, matrices={"Q8_0": 4000 * MB})
    spread, within = placement(source=repo(), cpus="0-7"), placement(source=repo(), cpus="numa:0")
    both, one = (asked(host, each, known=world(each, tensors=big, variants=())) for each in (spread, within))
    assert chosen(both).speed.one.low < chosen(one).speed.one.low


def test_a_model_whose_files_nobody_can_read_is_told_as_such():
    wish = placement(source=HostPath(path="/srv/model.gguf"))
    known = world(wish)
    key = "smol@one"
    unread = msgspec.structs.replace(known.weights[key], shape=None, tensors=None)
    told = asked(facts(), wish, known=msgspec.structs.replace(known, weights={key: unread}))
    assert told.problem and not told.choices


def test_a_host_that_does_not_tell_its_memory_is_told_as_such():
    host = facts(memory=Unknown(unknown="no /proc/meminfo"))
    told = asked(host, placement(source=repo()))
    assert all(choice.wish is None and "no /proc/meminfo" in choice.why for choice in told.choices)
    assert told.advice is None


def test_a_neighbour_of_whom_nothing_is_known_is_named_and_left_out():
    wish, other = placement(source=repo()), placement("other", port=8101)
    told = recommend(deployment(other, wish), wish, facts(), world(wish), playbooks(), written=wish)
    assert chosen(told).wish is not None
    assert any("other" in note for note in told.notes)


def test_a_neighbour_that_does_not_fit_by_itself_is_the_problem_and_named():
    wish, other = placement(source=repo()), placement("other", port=8101, context=9000)
    told = asked(facts(), wish, other)
    assert not told.choices
    assert "one other" in told.problem and "9000" in told.problem


def test_the_default_context_is_the_wish_where_the_manifest_has_none():
    told = asked(facts(), placement(source=repo(), context=None), known=None)
    assert told.context == 8192
    assert told.advice.lines == ()


def test_a_context_beyond_what_the_model_knows_is_refused_and_a_known_one_advised():
    wish = placement(source=repo(), context=10_000)
    told = asked(facts(), wish)
    assert chosen(told).wish is None
    assert told.advice.context == 8192
    assert "context: 8192" in told.advice.lines


def test_a_model_that_does_not_tell_its_trained_context_is_not_tried_with_more_than_the_wish():
    wish = placement(source=repo(), context=3000)
    told = asked(facts(), wish, known=world(wish, shape=shape(context_length=0)))
    assert {way.context for choice in told.choices for way in choice.largest} == {3000}
    assert any("3000" in note for note in told.notes)


# ---- Advice --------------------------------------------------------------------------------------------


def advice(quant, *, memory=16 * GIB, size=96 * MB, bandwidth=None, variants=VARIANTS, **wish):
    host = facts(memory=memory) if bandwidth is None else with_bandwidth(facts(memory=memory), bandwidth)
    kind = re.sub(r"_[SML]$", "", quant)
    asking = placement(source=repo(quant), **wish)
    known = world(asking, tensors=tensors(size=size, matrices={kind: int(size * 0.9)}), variants=variants)
    known = as_file(known, asking, Variant(quant=quant, size=size), {kind: int(size * 0.9)})
    return asked(host, asking, known=known).advice


def test_what_fits_and_is_usual_stays():
    told = advice("Q4_K_M")
    assert (told.quant, told.lines) == ("Q4_K_M", ())


def test_sixteen_bits_give_way_to_eight():
    told = advice("F16", size=260 * MB, variants=VARIANTS[:3])
    assert told.quant == "Q8_0"
    assert told.lines == ("source: {huggingface: org/name-GGUF, quant: Q8_0}",)


def test_what_does_not_fit_gives_way_to_the_largest_that_does():
    variants = (Variant(quant="Q4_K_M", size=1000 * MB), Variant(quant="Q8_0", size=9000 * MB))
    told = advice("Q6_K", size=3900 * MB, memory=4 * GIB, variants=variants)
    assert told.quant == "Q4_K_M"


def test_two_bits_are_left_where_more_is_fast_enough():
    assert advice("Q2_K", size=40 * MB, variants=VARIANTS[1:], bandwidth=10**11).quant == "Q8_0"
    assert advice("Q2_K", size=40 * MB, variants=VARIANTS[1:]).quant == "Q2_K"


@pytest.mark.parametrize("quant", ["UD-Q4_K_XL", "ud-q5_k_xl", "MXFP4_MOE", "IQ4_XS"])
def test_names_of_dynamic_and_newer_quantisations_tell_their_bits_too(quant):
    told = advice(quant, size=90 * MB)
    assert (told.quant, told.lines) == (quant, ())


def test_a_dynamic_quantisation_is_counted_as_the_usual_one_of_its_size():
    names = ("Q4_K_M", "UD-Q4_K_XL", "IQ2_M", "UD-IQ2_M", "Q8_0", "UD-Q8_K_XL")
    host = with_bandwidth(facts(cores=cores(2)))
    host = msgspec.structs.replace(
        host, cpu=msgspec.structs.replace(host.cpu, flags=("avx2", "avx512f", "amx_int8"))
    )
    rows = {}
    for name in names:  # each alone: files of one size are told apart by their names only
        wish = placement(source=repo("F16"))
        known = world(wish, variants=(Variant(quant=name, size=1000 * MB),))
        told = asked(host, wish, known=known)
        rows[name] = next(choice for choice in told.choices if choice.quant == name)
    for usual, dynamic in (names[:2], names[2:4], names[4:]):
        assert rows[dynamic].wish == rows[usual].wish
        assert rows[dynamic].speed == rows[usual].speed
    assert rows["IQ2_M"].speed != rows["Q4_K_M"].speed


def test_what_people_would_wait_for_gives_way_to_the_largest_that_is_quick():
    variants = (Variant(quant="Q4_K_M", size=300 * MB), Variant(quant="Q6_K", size=450 * MB))
    told = advice("Q8_0", size=4000 * MB, variants=variants, bandwidth=40 * 10**9)
    assert told.quant == "Q6_K"


def test_where_nothing_fits_as_wished_fewer_requests_come_before_a_shorter_context():
    told = advice("Q4_K_M", memory=1300 * MIB, context=8192, parallel=16, variants=())
    assert told.context == 8192
    assert 1 <= told.parallel < 16
    assert told.lines == (f"parallel: {told.parallel}",)


@pytest.mark.parametrize("parallel", [1, 2, 3])
@pytest.mark.parametrize("memory", [2, 3, 4, 5, 8])
def test_a_context_beyond_what_the_model_knows_gives_way_to_the_longest_for_the_requests_wished(
    memory, parallel
):
    wish = placement(source=repo(), context=50_000, parallel=parallel)
    told = asked(facts(memory=memory * GIB), wish, known=world(wish, shape=shape(context_length=40_000)))
    longest = max(way.context for way in chosen(told).largest if way.parallel >= parallel)
    assert (told.advice.context, told.advice.parallel) == (longest, parallel)


def test_a_revision_and_a_projector_stay_in_the_lines_to_write():
    source = HuggingFace(repo="org/name-GGUF", quant="F16", revision="v2", mmproj="mmproj-*.gguf")
    wish = placement(source=source)
    known = world(wish, tensors=tensors(size=260 * MB, matrices={"F16": 250 * MB}))
    told = asked(facts(), wish, known=known).advice
    assert told.lines == (
        'source: {huggingface: org/name-GGUF, revision: v2, quant: Q8_0, mmproj: "mmproj-*.gguf"}',
    )


def test_a_model_that_is_new_gets_all_of_its_lines():
    wish = placement("org/name-GGUF", source=repo("Q4_K_M"), port=8107)
    told = recommend(deployment(wish), wish, facts(), world(wish), playbooks(), written=None)
    assert told.advice.name == "name"
    assert told.advice.lines == (
        "source: {huggingface: org/name-GGUF, quant: Q4_K_M}",
        "backend: llama",
        "on: [one]",
        "port: 8107",
        "context: 2048",
        "parallel: 2",
    )


def test_what_is_asked_otherwise_than_it_is_written_gets_the_lines_that_say_it():
    written = placement(source=repo("Q4_K_M"), context=None)
    asking = msgspec.structs.replace(written, source=repo("Q8_0"), context=4096, parallel=3)
    known = world(written, tensors=tensors(matrices={"Q8_0": 80 * MB}), variants=VARIANTS[:2])

    def lines(wish):
        told = recommend(deployment(wish), wish, facts(), known, playbooks(), written=written)
        return told.advice.lines

    assert lines(asking) == (
        "source: {huggingface: org/name-GGUF, quant: Q8_0}",
        "context: 4096",
        "parallel: 3",
    )
    assert lines(msgspec.structs.replace(written, context=8192)) == ()


def test_the_shape_is_the_same_whatever_the_quantisation():
    """A longer trained context lets every quantisation have it."""
    wish = placement(source=repo())
    known = world(wish, shape=shape(context_length=32768))
    told = asked(facts(memory=64 * GIB), wish, known=known)
    assert {max(way.context for way in choice.largest) for choice in told.choices} == {32768}
