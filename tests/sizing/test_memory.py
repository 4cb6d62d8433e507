"""The memory of one llama.cpp server by part: what the CPU rearranges, compute buffers, limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpudeploy.sizing.gguf.compute import compute_buffer
from cpudeploy.sizing.gguf.need import gguf_need
from cpudeploy.sizing.gguf.repack import repack_bytes
from cpudeploy.sizing.gguf.serving import Serving
from cpudeploy.sizing.memory import MIB, container_limit
from cpudeploy.types.shape import AttentionLayers, ModelShape, RecurrentLayers, Tensors
from tests.factories import GIB, shape, tensors

AVX2 = frozenset({"sse4_2", "avx2", "fma"})
AVX512 = AVX2 | {"avx512f"}
AMX = AVX512 | {"amx_int8"}
ARM = frozenset({"asimd", "asimddp"})
FOUR_OF_512 = Serving(512, 4, flags=AVX2)


def of(layers: int, kv_heads: int, head: int, window: int | None = None) -> AttentionLayers:
    return AttentionLayers(
        layers=layers, kv_heads=kv_heads, key_length=head, value_length=head, window=window
    )


def model(name: str, width: int, inner: int, heads: int, words: int, *caches: AttentionLayers) -> ModelShape:
    return shape(
        architecture=name,
        layers=sum(each.layers for each in caches),
        embedding=width,
        feed_forward=inner,
        heads=heads,
        vocabulary=words,
        attention=caches,
    )


LLAMA = model("llama", 2048, 8192, 32, 128256, of(2, 8, 64))
QWEN3 = model("qwen3", 2560, 9728, 32, 151936, of(2, 8, 128))
GEMMA_SMALL = model("gemma3", 640, 2048, 4, 262144, of(5, 1, 256, 512), of(1, 1, 256))
GEMMA = model("gemma3", 2560, 10240, 8, 262144, of(5, 4, 256, 1024), of(1, 4, 256))
TINY = model("llama", 256, 512, 4, 248320, of(2, 2, 64))
HYBRID = ModelShape(
    architecture="qwen35",
    layers=24,
    context_length=262144,
    embedding=2048,
    heads=8,
    feed_forward=6144,
    vocabulary=248320,
    attention=(of(6, 2, 256),),
    recurrent=(RecurrentLayers(layers=18, conv=3 * 6144, state=2048 * 128),),
)
MIXTURE = ModelShape(
    architecture="qwen3moe",
    layers=4,
    context_length=40960,
    embedding=2048,
    heads=32,
    feed_forward=768,
    vocabulary=151936,
    attention=(of(4, 4, 128),),
    experts=128,
    experts_used=8,
)
EXPERTS = Tensors(size=1400 * MIB, matrices={"Q4_K": 1350 * MIB}, experts=1296 * MIB)


@pytest.mark.parametrize(
    ("known", "context", "slots", "logged"),
    [
        pytest.param(shape(), 2048, 4, 16.64, id="SmolLM2"),
        pytest.param(LLAMA, 2048, 4, 70.02, id="llama"),
        pytest.param(QWEN3, 2048, 4, 84.02, id="qwen3"),
        pytest.param(GEMMA_SMALL, 2048, 4, 21.28, id="gemma3, small"),
        pytest.param(GEMMA, 2048, 4, 88.53, id="gemma3"),
        pytest.param(HYBRID, 2048, 4, 58.02, id="qwen35"),
        pytest.param(MIXTURE, 2048, 4, 90.02, id="qwen3moe"),
        pytest.param(TINY, 512, 1, 5.02, id="tiny"),
        pytest.param(TINY, 512, 16, 18.17, id="tiny, 16 slots"),
    ],
)
def test_the_compute_buffer_is_what_build_11434_logs_and_never_less(
    known: ModelShape, context: int, slots: int, logged: float
):
    found = compute_buffer(known, EXPERTS, Serving(context, slots), outputs=slots) / MIB
    assert logged - 0.05 <= found <= 1.45 * logged


class TestRearranged:
    MIXED = Tensors(size=7, matrices={"Q4_K": 1000, "Q6_K": 200, "F16": 30, "Q2_K": 4})

    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            (frozenset({"sse4_2"}), 0),
            (AVX2, 1000),
            (AVX512, 1004),
            (ARM, 1200),
        ],
    )
    def test_it_depends_on_the_cpu(self, flags: frozenset[str], expected: int):
        assert repack_bytes(self.MIXED, flags) == expected

    def test_amx_takes_more_than_was_stored(self):
        assert repack_bytes(self.MIXED, AMX) > 1000 + 200 + 30 + 4

    def test_an_unknown_cpu_counts_as_the_greediest(self):
        assert repack_bytes(self.MIXED, None) >= max(
            repack_bytes(self.MIXED, flags) for flags in (AVX2, AVX512, AMX, ARM)
        )

    def test_the_mapped_file_is_counted_beside_the_copy(self):
        known = tensors(matrices={"Q4_0": 50 * MIB})
        need = gguf_need(shape(), known, FOUR_OF_512, file_bytes=96 * MIB)
        assert (need.weights, need.repack) == (96 * MIB, 50 * MIB)


class TestWhatItGrowsWith:
    def test_slots(self):
        one, four = (need(shape(), replace(FOUR_OF_512, parallel=slots)) for slots in (1, 4))
        assert four.kv == 4 * one.kv
        assert four.engine > one.engine

    def test_the_vocabulary(self):
        small, large = (need(shape(vocabulary=words), FOUR_OF_512) for words in (32_000, 262_144))
        assert large.engine - small.engine > 60 * MIB

    def test_the_batch(self):
        usual, wide = (need(LLAMA, Serving(4096, 1, ubatch=size)) for size in (512, 2048))
        assert wide.compute > 3 * usual.compute

    def test_a_batch_is_never_longer_than_all_cells(self):
        assert need(LLAMA, Serving(256, 1, ubatch=2048)) == need(LLAMA, Serving(256, 1, ubatch=256))

    def test_checkpoints_of_states(self):
        none, two = (need(HYBRID, replace(FOUR_OF_512, checkpoints=count)) for count in (0, 2))
        assert two.state >= 3 * none.state

    def test_the_prompt_cache_and_a_projector(self):
        more = need(shape(), replace(FOUR_OF_512, cache_ram=GIB, projector=600 * MIB))
        plain = need(shape(), FOUR_OF_512)
        assert more.cache >= GIB
        assert more.projector >= 600 * MIB
        assert (plain.cache, plain.projector) == (0, 0)
        assert more.total - plain.total == more.cache + more.projector


class TestTheContainersLimit:
    @pytest.mark.parametrize("size", [1, 100 * MIB, GIB + 1, 70 * GIB])
    def test_it_covers_the_need_with_room_and_is_no_waste(self, size: int):
        limit = container_limit(size)
        assert limit % (16 * MIB) == 0
        assert size * 1.04 <= limit <= size * 1.06 + 48 * MIB

    def test_more_need_is_never_a_smaller_limit(self):
        limits = [container_limit(size * 7 * MIB) for size in range(1, 200)]
        assert limits == sorted(limits)


def need(known: ModelShape, serving: Serving):
    return gguf_need(known, tensors(), serving, file_bytes=96 * MIB)
