"""Decoding speed is a range that real servers were seen to keep within, and that moves the right way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpudeploy.sizing.gguf.serving import Serving
from cpudeploy.sizing.paged.serving import Paged
from cpudeploy.sizing.speed import LEAST_READ, Engine, decode_speed, read_per_token
from cpudeploy.types.playbook import Overhead
from tests.factories import shape, tensors

GENOA = frozenset({"avx2", "avx512f", "avx512_vnni"})
ONE = Serving(context=2048, parallel=1)

# Measured with llama-server on two cores of an EPYC with VNNI, beside other work (docs/recommend.md). Type of
# the matrices, MB of them, layers, threads, requests, GB/s that memory gave, tokens a second of all requests.
MEASURED = [
    ("Q4_1", 96, 30, 1, 1, 31.5, 90.1),
    ("Q4_1", 96, 30, 1, 4, 31.3, 106.4),
    ("Q4_1", 96, 30, 2, 1, 38.0, 126.8),
    ("Q4_1", 96, 30, 2, 4, 39.4, 175.1),
    ("Q4_0", 582, 22, 1, 1, 27.9, 25.2),
    ("Q4_0", 582, 22, 1, 4, 27.6, 28.6),
    ("Q4_0", 582, 22, 2, 1, 36.8, 39.3),
    ("Q4_0", 582, 22, 2, 4, 50.6, 42.0),
    ("Q4_K", 582, 22, 1, 1, 26.4, 26.7),
    ("Q4_K", 582, 22, 1, 4, 26.2, 29.5),
    ("Q4_K", 582, 22, 2, 1, 36.4, 38.3),
    ("Q4_K", 582, 22, 2, 4, 53.7, 40.5),
    ("Q8_0", 1099, 22, 1, 1, 28.9, 19.4),
    ("Q8_0", 1099, 22, 1, 4, 28.2, 19.6),
    ("Q8_0", 1099, 22, 2, 1, 48.3, 19.6),
    ("Q8_0", 1099, 22, 2, 4, 48.1, 25.8),
    ("F16", 2069, 22, 1, 1, 25.1, 10.7),
    ("F16", 2069, 22, 1, 4, 25.9, 16.5),
    ("F16", 2069, 22, 2, 1, 49.3, 13.5),
    ("F16", 2069, 22, 2, 4, 46.8, 23.0),
    ("Q4_K", 1641, 28, 1, 1, 23.3, 8.9),
    ("Q4_K", 1641, 28, 1, 4, 22.6, 9.3),
    ("Q4_K", 1641, 28, 2, 1, 43.0, 9.9),
    ("Q4_K", 1641, 28, 2, 4, 39.8, 10.0),
]
# In quieter minutes, memory read by a program in C.
QUIET = [
    ("Q4_0", 604, 22, 2, 1, 46.9, 35.4),
    ("Q8_0", 1139, 22, 2, 1, 36.4, 24.7),
]


# Measured with vLLM 0.32 on the same cores while the machine was busy (load 20): MB in bfloat16, layers, width,
# requests, tokens a second of all requests.
BY_VLLM = [
    (269, 30, 576, 1, 45.5),
    (269, 30, 576, 4, 168.8),
    (269, 30, 576, 8, 287.2),
    (269, 30, 576, 16, 427.8),
]
OVERHEAD = Overhead(engine_mib=1600)


def paged(parallel=1, *, element=2, ranks=1):
    return Paged(context=2048, parallel=parallel, element=element, overhead=OVERHEAD, ranks=ranks)


def speed(*, kind="Q4_K", mb=4000, layers=32, bandwidth=100e9, threads=16, serving=ONE, flags=GENOA, **more):
    found = decode_speed(
        shape(layers=layers, **more.pop("shape", {})),
        tensors(size=mb * 1_000_000, matrices={kind: mb * 1_000_000}, **more.pop("tensors", {})),
        serving,
        Engine(bandwidth=int(bandwidth), threads=threads, flags=flags, **more),
    )
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "mb", "layers", "threads", "requests", "gbs", "measured"), MEASURED + QUIET)
def test_what_was_measured_lies_within_the_range(kind, mb, layers, threads, requests, gbs, measured):
    told = speed(
        kind=kind,
        mb=mb,
        layers=layers,
        threads=threads,
        bandwidth=gbs * 1e9,
        serving=Serving(context=512, parallel=requests),
    )
    assert told.total.low <= measured <= told.total.high


@pytest.mark.parametrize("reached", [0.55, 0.65])
def test_what_one_socket_servers_reach_with_large_models_lies_within_the_range(reached):
    ceiling = 350e9 / 4e9
    told = speed(mb=4000, bandwidth=350e9, threads=64)
    assert told.one.low <= reached * ceiling <= told.one.high


@pytest.mark.parametrize("reached", [0.15, 0.40])
def test_what_two_sockets_reach_unpinned_lies_within_the_range(reached):
    ceiling = 500e9 / 4e9
    told = speed(mb=4000, bandwidth=500e9, threads=64, nodes=2)
    assert told.one.low <= reached * ceiling <= told.one.high


def test_of_routed_experts_only_those_of_a_token_are_read():
    sparse = shape(experts=128, experts_used=8)
    weights = tensors(size=18 * 10**9, matrices={"Q4_K": 17 * 10**9}, experts=16 * 10**9)
    assert read_per_token(sparse, weights) == 2 * 10**9


def test_more_requests_meet_more_experts_but_never_more_than_there_are():
    sparse = shape(experts=128, experts_used=8)
    weights = tensors(size=18 * 10**9, matrices={"Q4_K": 17 * 10**9}, experts=16 * 10**9)
    reads = [read_per_token(sparse, weights, requests) for requests in (1, 2, 8, 64, 4096)]
    assert reads == sorted(reads)
    assert reads[1] > reads[0]
    assert reads[-1] <= 17 * 10**9


def test_tables_that_are_only_looked_up_are_not_read():
    assert read_per_token(shape(), tensors(size=3 * 10**9, matrices={"F16": 2 * 10**9})) == 2 * 10**9


def test_a_file_that_does_not_tell_its_matrices_is_read_whole():
    assert read_per_token(shape(), tensors(size=3 * 10**9, matrices={})) == 3 * 10**9


def test_models_that_fit_into_caches_get_no_range():
    weights = tensors(size=LEAST_READ, matrices={"F16": LEAST_READ - 1})
    assert decode_speed(shape(), weights, ONE, Engine(bandwidth=10**10, threads=2)) is None


def test_what_holds_back_the_faster_end_is_told():
    assert speed(threads=1, bandwidth=400e9).limit == "cores"
    assert speed(threads=64, bandwidth=100e9).limit == "memory"
    assert speed(mb=100, layers=90, threads=64, bandwidth=800e9).limit == "steps"


def test_a_cpu_without_vectors_is_slower_than_one_with_them():
    plain, vectors = speed(threads=2, flags=frozenset({"sse2"})), speed(threads=2, flags=frozenset({"avx2"}))
    assert plain.one.low < vectors.one.low
    assert plain.one.high < vectors.one.high


def test_values_out_of_tables_take_longer():
    assert speed(kind="IQ2_XXS", threads=1).one.high < speed(kind="Q2_K", threads=1).one.high


kinds = st.sampled_from(["Q4_0", "Q8_0", "F16", "IQ2_S", "Q6_K"])
some_flags = st.sampled_from([None, frozenset(), frozenset({"avx2"}), GENOA, frozenset({"amx_int8", "avx2"})])


@st.composite
def cases(draw):
    nodes = draw(st.integers(1, 4))
    part = draw(st.floats(0.01, 1))
    return {
        "kind": draw(kinds),
        "mb": draw(st.integers(70, 400_000)),
        "layers": draw(st.integers(1, 120)),
        "bandwidth": draw(st.floats(1e9, 1e12)),
        "threads": draw(st.integers(1, 256)),
        "serving": Serving(context=draw(st.integers(1, 131072)), parallel=draw(st.integers(1, 64))),
        "flags": draw(some_flags),
        "nodes": nodes,
        "part": part,
        "most": draw(st.floats(part, 1)),
    }


@given(cases())
def test_a_range_is_one_and_all_slots_together_are_never_slower_than_one(case):
    told = speed(**case)
    assert 0 < told.one.low <= told.one.high
    assert told.one.low <= told.total.low <= told.total.high
    assert told.one.high <= told.total.high


@given(cases(), st.floats(1, 4))
def test_faster_memory_never_makes_a_model_slower(case, factor):
    slow, fast = speed(**case), speed(**{**case, "bandwidth": case["bandwidth"] * factor})
    assert fast.one.low >= slow.one.low * 0.999
    assert fast.one.high >= slow.one.high * 0.999


@given(cases())
def test_a_longer_context_never_makes_the_slow_end_faster(case):
    longer = replace(case["serving"], context=case["serving"].context * 2)
    assert speed(**{**case, "serving": longer}).one.low <= speed(**case).one.low


# ---- vLLM ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mb", "layers", "width", "requests", "measured"), BY_VLLM)
def test_what_vllm_was_measured_to_do_lies_in_the_range(mb, layers, width, requests, measured):
    told = speed(
        kind="BF16",
        mb=mb,
        layers=layers,
        bandwidth=38e9,
        threads=2,
        serving=paged(requests),
        flags=GENOA | {"avx512_bf16"},
        shape={"embedding": width},
    )
    assert told.total.low <= measured <= told.total.high


def test_vllm_reads_all_weights_in_the_type_it_computes_in():
    stored = {"kind": "F32", "mb": 4000}
    assert speed(serving=paged(), **stored).read == 2000 * 10**6
    assert speed(serving=paged(element=4), **stored).read == 4000 * 10**6
    assert speed(serving=paged(element=4), kind="BF16", mb=4000).read == 8000 * 10**6


def test_instructions_for_16_bits_make_many_requests_faster_by_vllm():
    steps = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    flags = [frozenset(steps[: number + 1]) for number in range(len(steps))]
    told = [speed(serving=paged(64), bandwidth=1e13, flags=each).total for each in flags]
    assert [each.low for each in told] == sorted(each.low for each in told)
    highs = [each.high for each in told]
    assert highs == sorted(set(highs))


def test_flags_that_are_not_known_make_the_range_as_wide_as_all():
    known = [speed(serving=paged(8), flags=frozenset(each)).total for each in ({"avx2"}, {"amx_bf16"}, {})]
    unknown = speed(serving=paged(8), flags=None).total
    assert unknown.low <= min(each.low for each in known)
    assert unknown.high >= max(each.high for each in known)


@given(
    st.integers(1, 64), st.integers(1, 64), st.sampled_from(["avx2", "avx512f", "avx512_bf16", "amx_bf16"])
)
def test_more_requests_are_never_slower_together_by_vllm(one, other, flag):
    few, many = sorted((one, other))
    told = [speed(serving=paged(each), flags=frozenset({"avx2", flag})).total for each in (few, many)]
    assert told[0].high <= told[1].high * 1.0001
    assert all(each.low <= each.high for each in told)
