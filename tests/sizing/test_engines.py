"""The other engine's side of a recommendation: tried as the plan would, told with numbers, never invented."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpudeploy.manifest import load_playbook
from cpudeploy.sizing import allocate
from cpudeploy.sizing.recommend import recommend
from cpudeploy.types.base import Unknown
from cpudeploy.types.deployment import Backend, HuggingFace
from cpudeploy.types.playbook import Overhead
from cpudeploy.types.recommendation import Recommendation
from tests.factories import GIB, cores, deployment, facts, placement, playbooks, resolved, shape, tensors

MB = 1_000_000
VLLM = load_playbook("vllm-cpu", ())
BOTH = {**playbooks(), "vllm-cpu": VLLM}
NEW = frozenset({"avx2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
BF16 = NEW | {"avx512_bf16"}
AMX = BF16 | {"amx_tile", "amx_bf16", "amx_int8"}
BILLION = {"parameters": 1_000_000_000, "layers": 22, "embedding": 2048, "feed_forward": 5632}
OVERHEAD = Overhead(engine_mib=1600, compile_mib=1000, rank_mib=750, reads_limit=True)


def machine(flags=BF16, *, memory=32 * GIB, arch="amd64", bandwidth=None, count=8):
    host = facts(memory=memory, cores=cores(count))
    return msgspec.structs.replace(
        host,
        os=msgspec.structs.replace(host.os, arch=arch),
        cpu=msgspec.structs.replace(host.cpu, flags=tuple(sorted(flags))),
        memory=msgspec.structs.replace(host.memory, bandwidth=bandwidth),
    )


def site(*placements, backends=("llama", "vllm")):
    vllm = Backend(name="vllm", playbook="vllm-cpu", image="vllm/vllm-openai-cpu:v0.32.0", overhead=OVERHEAD)
    base = deployment(*placements)
    both = {**base.backends, "vllm": vllm}
    return msgspec.structs.replace(base, backends={name: both[name] for name in backends})


def gguf(**wish):
    """A billion parameters in Q4_K, and what is known of them."""
    one = placement(source=HuggingFace(repo="org/name-GGUF", quant="Q4_K_M"), **wish)
    return one, known_as(one, tensors(size=600 * MB, matrices={"Q4_K": 560 * MB}))


def safetensors(**wish):
    one = placement(source=HuggingFace(repo="org/name"), backend="vllm", **wish)
    return one, known_as(one, tensors(size=2000 * MB, matrices={"BF16": 1900 * MB}))


def known_as(one, made_of):
    """One file, as large as its tensors."""
    found = resolved(one, shape=shape(**BILLION), tensors=made_of)
    (key,) = found.weights
    (file,) = found.weights[key].files
    files = (msgspec.structs.replace(file, size=made_of.size),)
    return msgspec.structs.replace(
        found, weights={key: msgspec.structs.replace(found.weights[key], files=files)}
    )


def told(host, made, **more) -> Recommendation:
    wish, known = made
    return recommend(site(wish, **more), wish, host, known, BOTH, written=wish)


def rows(told: Recommendation) -> dict[tuple[str, str], object]:
    return {(each.backend, each.quant): each for each in told.choices}


def test_a_gguf_is_compared_with_vllm_in_16_bits():
    found = told(machine(), gguf())
    assert list(rows(found)) == [("llama", "Q4_K_M"), ("vllm", "BF16")]
    other = rows(found)["vllm", "BF16"]
    assert other.estimated and not other.chosen
    assert other.size == 2 * BILLION["parameters"]
    assert other.wish.memory > 2 * BILLION["parameters"]


def test_safetensors_are_compared_with_the_usual_quantisations_by_llama_cpp():
    found = rows(told(machine(), safetensors()))
    assert list(found) == [("vllm", "BF16"), ("llama", "Q4_K_M"), ("llama", "Q8_0")]
    assert found["llama", "Q4_K_M"].size < found["llama", "Q8_0"].size < found["vllm", "BF16"].size
    assert found["llama", "Q8_0"].wish.memory < found["vllm", "BF16"].wish.memory


@pytest.mark.parametrize(("make", "backends"), [(gguf, ("llama",)), (safetensors, ("vllm",))])
def test_without_a_backend_of_the_other_engine_nothing_is_compared(make, backends):
    found = told(machine(), make(), backends=backends)
    assert {each.backend for each in found.choices} == set(backends)
    assert (found.engine is None) == (backends == ("llama",))


def test_a_model_whose_parameters_nobody_tells_has_at_most_what_its_bytes_hold():
    wish, known = gguf()
    key = f"{wish.model}@{wish.host}"
    unsaid = msgspec.structs.replace(known.weights[key], shape=shape(**{**BILLION, "parameters": 0}))
    found = told(machine(), (wish, msgspec.structs.replace(known, weights={key: unsaid})))
    assert rows(found)["vllm", "BF16"].size == 600 * MB * 4


@settings(max_examples=25, deadline=None)
@given(st.integers(1 * GIB, 12 * GIB), st.integers(256, 8192), st.integers(1, 24), st.booleans())
def test_what_fits_by_the_other_engine_is_what_the_plan_accepts(memory, context, parallel, of_gguf):
    host = machine(memory=memory)
    wish, known = (gguf if of_gguf else safetensors)(context=context, parallel=parallel)
    found = told(host, (wish, known))
    other = "vllm" if of_gguf else "llama"
    real_wish, real_known = (safetensors if of_gguf else gguf)(context=context, parallel=parallel)
    for row in (each for each in found.choices if each.backend == other):
        if row.wish is not None and row.quant in ("BF16", "Q4_K_M"):
            got = allocate(site(real_wish), "one", host, real_known, BOTH)[real_wish.model]
            assert got.memory <= row.wish.memory
        if row.wish is None:
            assert "can be given" in row.why


def test_a_limit_or_a_cache_that_was_set_by_hand_is_the_engines_own():
    wish, known = safetensors(memory=20 * GIB, kv=2 * GIB)
    found = rows(told(machine(), (wish, known)))
    assert found["vllm", "BF16"].wish.memory == 20 * GIB
    assert found["llama", "Q8_0"].wish.memory < 8 * GIB


@pytest.mark.parametrize("make", [gguf, safetensors])
@pytest.mark.parametrize(
    ("flags", "arch", "parallel", "memory", "verdict", "says"),
    [
        (AMX, "amd64", 16, 32, "may win", "AMX"),
        (BF16, "amd64", 8, 32, "may win", "8 requests at a time"),
        (BF16, "amd64", 1, 32, "poor", "one request at a time"),
        (BF16, "amd64", 4, 32, "poor", "only 4 requests"),
        (NEW, "amd64", 16, 32, "open", "16 requests"),
        (BF16, "amd64", 6, 32, "open", "bfloat16"),
        ({"avx2"}, "amd64", 16, 32, "poor", "no AVX-512"),
        ({"asimd"}, "arm64", 16, 32, "poor", "32 bits"),
        ({"asimd", "bf16"}, "arm64", 16, 32, "may win", "bfloat16"),
        (AMX, "amd64", 16, 4, "poor", "does not fit as wished"),
    ],
)
def test_what_speaks_for_and_against_vllm_is_told(make, flags, arch, parallel, memory, verdict, says):
    found = told(machine(flags, arch=arch, memory=memory * GIB), make(parallel=parallel, context=4096))
    assert found.engine.verdict == verdict
    assert says in "; ".join(found.engine.reasons)


def test_flags_that_nobody_knows_speak_neither_way():
    host = machine()
    host = msgspec.structs.replace(host, cpu=msgspec.structs.replace(host.cpu, flags=Unknown(unknown="x")))
    assert told(host, safetensors(parallel=16)).engine.verdict == "open"


def test_reasons_have_the_numbers_of_both():
    found = told(machine(bandwidth=100 * 10**9), gguf(parallel=16, context=1024))
    text = "; ".join(found.engine.reasons)
    both = rows(found)
    assert "GiB, llama.cpp with Q4_K_M" in text
    for row in both.values():
        assert f"–{row.speed.total.high:.0f}" in text
    assert "org/name-GGUF" in text


def test_sixteen_bits_read_more_than_a_quantised_file():
    both = rows(told(machine(bandwidth=100 * 10**9), safetensors()))
    assert both["vllm", "BF16"].speed.read > 3 * both["llama", "Q4_K_M"].speed.read
    assert both["vllm", "BF16"].speed.one.high < both["llama", "Q4_K_M"].speed.one.high


def test_what_is_advised_stays_with_the_engine_of_the_manifest():
    found = told(machine(), safetensors(parallel=2))
    assert (found.advice.quant, found.advice.lines) == ("BF16", ())


def test_what_does_not_fit_by_the_manifests_engine_is_not_said_of_the_other():
    found = told(machine(memory=10 * GIB), safetensors(parallel=16, context=8192))
    both = rows(found)
    assert both["vllm", "BF16"].wish is None
    assert found.advice.parallel < 16
    assert "does not fit by backend vllm" in found.advice.why


def test_what_a_step_reads_is_told_of_what_is_computed_with():
    """A processor without bfloat16 computes in 32 bits what the file has in 16."""
    wish = safetensors(parallel=2, context=2048)
    narrow, wide = (
        rows(told(machine(flags, bandwidth=100 * 10**9), wish))["vllm", "BF16"].speed.read
        for flags in (BF16, NEW)
    )
    assert wide == 2 * narrow
    said = "; ".join(told(machine(NEW, bandwidth=100 * 10**9), wish).engine.reasons)
    quick = "; ".join(told(machine(BF16, bandwidth=100 * 10**9), wish).engine.reasons)
    times = [float(re.search(r"each step reads ([0-9.]+) times", text)[1]) for text in (quick, said)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.05)
