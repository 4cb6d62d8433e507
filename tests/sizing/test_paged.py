"""What a vLLM server gets: its KV cache as the engine counts it, its memory, its cores and ranks."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from cpudeploy.errors import DoesNotFit, NotYet
from cpudeploy.resolve.config import shape_of
from cpudeploy.sizing import allocate
from cpudeploy.sizing.paged.kv import GIB, Pool, cache_bytes, pool_of, request_bytes
from cpudeploy.sizing.paged.need import paged_need, start_bytes
from cpudeploy.sizing.paged.serving import BLOCK, Paged
from cpudeploy.types.allocation import Allocation
from cpudeploy.types.deployment import HostPath
from cpudeploy.types.facts import Facts, Node
from cpudeploy.types.playbook import Overhead
from cpudeploy.types.shape import AttentionLayers, ModelShape, Tensors
from tests.engines import BOOKS, NEWEST, VLLM, allocated, both, full, known, paged, small
from tests.factories import cores, facts, placement, resolved

from .machines import numa, untold

MIB = 1 << 20
WIDE = small(
    layers=16,
    embedding=256,
    heads=32,
    feed_forward=512,
    vocabulary=1024,
    attention=(AttentionLayers(layers=16, kv_heads=32, key_length=256, value_length=256),),
)
SMOL = small(
    layers=30,
    embedding=576,
    heads=9,
    feed_forward=1536,
    vocabulary=49152,
    attention=(AttentionLayers(layers=30, kv_heads=3, key_length=64, value_length=64),),
)
TINY = small(
    layers=2,
    embedding=64,
    heads=4,
    feed_forward=128,
    vocabulary=512,
    attention=(AttentionLayers(layers=2, kv_heads=2, key_length=16, value_length=16),),
)
NOTHING = Overhead(engine_mib=0)
WINDOWED = {"num_hidden_layers": 34, "hidden_size": 2560, "num_attention_heads": 8, "sliding_window": 1024}


def serving(context: int = 8192, parallel: int = 4, **changes: Any) -> Paged:
    return Paged(**{"context": context, "parallel": parallel, "element": 2, "overhead": NOTHING, **changes})


def only(host: Facts, wish: Any = None, **more: Any) -> Allocation:
    (allocation,) = allocated(host, wish or paged(), **more).values()
    return allocation


class TestCache:
    @pytest.mark.parametrize(
        ("config", "gib", "tokens"),
        [
            ({"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}, 9.25, 808192),
            ({"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}, 38.71, 126832),
            ({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}, 19.28, 157936),
        ],
        ids=["Qwen2.5-0.5B", "Llama-3.1-70B", "Llama-3.1-8B"],
    )
    def test_a_token_takes_what_published_logs_say(self, config: dict[str, int], gib: float, tokens: int):
        """`GPU KV cache size: 808,192 tokens` of so many GiB; a block was 16 tokens there."""
        heads = config["num_attention_heads"]
        width = 64 if heads == 14 else 128
        shape = shape_of({**config, "hidden_size": heads * width, "head_dim": width, "vocab_size": 1000})
        token = pool_of(shape, serving()).block / BLOCK
        assert gib * GIB / token == pytest.approx(tokens, rel=2e-4)

    def test_blocks_of_the_small_caches_that_old_versions_made(self):
        """`# CPU blocks: 2340` of 16 tokens in the 4 GiB that were the default."""
        assert 4 * GIB // (pool_of(small(), serving()).block // (BLOCK // 16)) == 2340

    @pytest.mark.parametrize(
        ("config", "block", "request_blocks"),
        [
            (
                {
                    "model_type": "gemma3_text",
                    "num_hidden_layers": 18,
                    "hidden_size": 640,
                    "num_attention_heads": 4,
                    "num_key_value_heads": 1,
                    "head_dim": 256,
                    "sliding_window": 512,
                },
                393216,
                169,
            ),
            (
                {
                    "model_type": "gemma3_text",
                    **WINDOWED,
                    "num_key_value_heads": 4,
                    "head_dim": 256,
                },
                2621440,
                214,
            ),
            (
                {
                    "model_type": "gpt_oss",
                    "num_hidden_layers": 24,
                    "hidden_size": 2880,
                    "num_attention_heads": 64,
                    "num_key_value_heads": 8,
                    "head_dim": 64,
                    "sliding_window": 128,
                },
                3145728,
                82,
            ),
            (
                {
                    "model_type": "qwen3",
                    "num_hidden_layers": 28,
                    "hidden_size": 1024,
                    "num_attention_heads": 16,
                    "num_key_value_heads": 8,
                    "head_dim": 128,
                },
                14680064,
                64,
            ),
            (
                {
                    "architectures": ["Gemma4ForConditionalGeneration"],
                    "num_hidden_layers": 35,
                    "hidden_size": 1536,
                    "num_attention_heads": 8,
                    "num_key_value_heads": 1,
                    "head_dim": 256,
                    "global_head_dim": 512,
                    "sliding_window": 512,
                    "num_kv_shared_layers": 20,
                    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
                },
                786432,
                108,
            ),
            (
                {
                    "model_type": "qwen3_5",
                    "num_hidden_layers": 24,
                    "hidden_size": 1024,
                    "num_attention_heads": 8,
                    "num_key_value_heads": 2,
                    "head_dim": 256,
                    "full_attention_interval": 4,
                    "linear_num_key_heads": 16,
                    "linear_num_value_heads": 16,
                    "linear_key_head_dim": 128,
                    "linear_value_head_dim": 128,
                    "linear_conv_kernel_dim": 4,
                },
                7864320,
                19,
            ),
        ],
        ids=["gemma-3-270m", "gemma-3-4b", "gpt-oss-20b", "Qwen3-0.6B", "gemma-4-E2B", "Qwen3.5-0.8B"],
    )
    def test_groups_are_those_the_engine_makes(self, config: dict[str, Any], block: int, request_blocks: int):
        """`_pool_bytes_per_block` and `_max_memory_usage_bytes_from_groups` of 0.32, called with such layers,
        a context of 8192, steps of 2048 tokens and, for recurrent layers, the cache mode `align`."""
        assert pool_of(shape_of({"vocab_size": 1000, **config}), serving()) == Pool(block, request_blocks)

    def test_a_latent_cache_is_not_dealt_out_to_ranks(self):
        latent = (AttentionLayers(layers=27, kv_heads=1, key_length=576, value_length=0),)
        one, two = (pool_of(small(attention=latent), serving(ranks=ranks)).block for ranks in (1, 2))
        assert one == two == 27 * 576 * 2 * BLOCK

    def test_heads_are_dealt_out_and_one_is_the_least(self):
        sizes = [pool_of(small(), serving(ranks=ranks)).block for ranks in (1, 2, 8, 16)]
        assert [sizes[0] // size for size in sizes] == [1, 2, 8, 8]

    def test_one_block_is_nobodys_so_a_whole_request_has_one_more(self):
        pool = pool_of(small(), serving(parallel=1))
        assert (
            request_bytes(small(), serving()) == pool.block * 65 == cache_bytes(small(), serving(parallel=1))
        )

    def test_a_version_that_is_told_whole_gib_is_counted_with_them(self):
        coarse = msgspec.structs.replace(NOTHING, kv="GiB")
        assert cache_bytes(small(), serving(overhead=coarse)) == 4 * GIB
        assert 3.5 * GIB < cache_bytes(small(), serving()) < 3.6 * GIB


class TestNeed:
    def test_weights_are_of_the_type_that_is_computed_in(self):
        whole = paged_need(small(), full(), serving(), largest_file=0)
        wide = paged_need(small(), full(), serving(element=4), largest_file=0)
        assert (whole.weights, wide.weights) == (full().size, 2 * full().size)
        assert wide.kv == 2 * whole.kv
        single = Tensors(size=400, matrices={"F32": 300})
        assert paged_need(small(), single, serving(), largest_file=0).weights == 200
        packed = Tensors(size=500, matrices={"I32": 300, "F16": 100})
        assert paged_need(small(), packed, serving(), largest_file=0).weights == 500

    def test_all_of_it_is_there_twice_once_it_was_rearranged(self):
        need = paged_need(small(), full(), serving(), largest_file=0)
        assert need.repack == need.weights

    @pytest.mark.parametrize(
        ("shape", "weights", "context", "parallel", "kv", "measured"),
        [
            (small(), 1137, 2304, 4, 1024, 4669),
            (WIDE, 269, 3072, 2, 3136, 5433),
            (TINY, 0, 2048, 2, 1024, 2486),
            (SMOL, 257, 2048, 2, 93, 2792),
        ],
        ids=["Qwen3-0.6B", "wide heads", "tiny", "SmolLM2-135M, compiling"],
    )
    def test_what_servers_of_the_newest_version_held_at_most(
        self, shape: ModelShape, weights: int, context: int, parallel: int, kv: int, measured: int
    ):
        """MiB: anonymous, shared and file-mapped pages of all processes, as measured."""
        told = serving(context, parallel, overhead=NEWEST, kv=kv * MIB)
        size = weights * MIB
        need = paged_need(shape, full(size), told, largest_file=size)
        assert 1.0 <= need.total / MIB / measured <= 1.1

    def test_what_is_over_before_the_cache_is_made_counts_only_beyond_it(self):
        heavy = msgspec.structs.replace(NOTHING, compile_mib=1024)
        little = paged_need(small(), full(), serving(1024, 1, overhead=heavy), largest_file=0)
        assert little.kv + little.compile == GIB
        assert paged_need(small(), full(), serving(overhead=heavy), largest_file=3 * GIB).compile == 0
        wide = Tensors(size=2 * full().size, matrices={"F32": 2 * full().size})
        loading = paged_need(small(), wide, serving(1024, 1, overhead=heavy), largest_file=wide.size)
        assert loading.files == wide.size - loading.weights - loading.kv > 0
        assert loading.compile == max(0, GIB - loading.kv - loading.files)

    def test_each_further_rank_takes_what_the_playbook_says(self):
        ranked = Overhead(engine_mib=1000, rank_mib=750)
        engines = [
            paged_need(small(), full(), serving(overhead=ranked, ranks=ranks), largest_file=0).engine
            for ranks in (1, 2, 4)
        ]
        assert engines == [1000 * MIB, 1750 * MIB, 3250 * MIB]

    def test_a_version_that_looks_at_its_limit_starts_only_with_room_for_the_files_pages(self):
        size = full().size
        careful = serving(overhead=msgspec.structs.replace(NOTHING, reads_limit=True))
        need = paged_need(small(), full(), careful, largest_file=size)
        assert start_bytes(need, careful, file_bytes=size) == need.total + size
        assert start_bytes(need, serving(), file_bytes=size) == need.total

    def test_every_version_that_the_playbook_knows_has_an_overhead(self):
        assert VLLM.overheads[-1].when is None
        assert [each.kv for each in VLLM.overheads] == ["GiB", "bytes", "bytes", "bytes"]


class TestAllocation:
    def test_every_number_has_its_reason(self):
        found = only(facts())
        parts = {part for part in MIB_PARTS if getattr(found.need, part)}
        assert {"weights", "repack", "kv", "compute", "engine"} <= parts
        assert {"cpus", "threads", "limit", "mems", *parts} <= found.reasons.keys()
        assert found.memory >= found.need.total

    def test_a_context_beyond_the_models_is_refused(self):
        with pytest.raises(DoesNotFit, match="40960"):
            only(facts(), paged(context=65536))

    @pytest.mark.parametrize(
        ("arch", "flags", "size"),
        [
            ("amd64", ("avx2",), 4),
            ("amd64", ("avx2", "avx512f"), 4),
            ("amd64", ("avx2", "avx512f", "amx_bf16"), 2),
            ("arm64", ("asimd",), 4),
            ("arm64", ("asimd", "bf16"), 2),
        ],
    )
    def test_a_processor_without_bfloat16_computes_with_twice_the_bytes(
        self, arch: str, flags: tuple[str, ...], size: int
    ):
        plain = facts()
        host = msgspec.structs.replace(
            plain,
            os=msgspec.structs.replace(plain.os, arch=arch),
            cpu=msgspec.structs.replace(plain.cpu, flags=flags),
        )
        for params, element in (
            ({"dtype": "auto"}, size),
            ({"dtype": "bfloat16"}, 2),
            ({"dtype": "float32"}, 4),
        ):
            assert 2 * only(host, paged(params=params)).need.kv == element * only(facts()).need.kv

    def test_a_cache_set_by_hand_wins_and_is_counted(self):
        four, eight = (only(facts(memory=32 * GIB), paged(kv=size * GIB)) for size in (4, 8))
        assert (four.need.kv, eight.need.kv) == (4 * GIB, 8 * GIB)
        assert eight.need.total - four.need.total == 4 * GIB <= eight.memory - four.memory

    def test_one_that_does_not_hold_all_requests_is_told(self):
        whole = only(facts(), paged(context=8192, parallel=1)).need.kv
        found = only(facts(), paged(context=8192, parallel=4, kv=whole))
        assert any("holds 1 of 4 requests" in warning for warning in found.warnings)
        assert not only(facts(), paged(context=8192, parallel=1, kv=whole)).warnings

    def test_one_that_holds_far_more_is_told_with_what_would_do(self):
        usual = only(facts(), paged(context=8192, parallel=1)).need.kv
        more = facts(memory=64 * GIB)
        (warning,) = only(more, paged(context=8192, parallel=1, kv=2 * usual)).warnings
        assert "1.78 GiB is set by hand, and 0.89 GiB hold all 1 × 8192 tokens" in warning
        assert not only(more, paged(context=8192, parallel=1, kv=2 * usual - 1)).warnings

    def test_one_that_does_not_hold_a_single_request_is_refused_with_numbers(self):
        whole = only(facts(), paged(context=8192, parallel=1)).need.kv
        with pytest.raises(DoesNotFit, match=r"KV cache of 0\.8\d GiB .* 8192 tokens, which takes 0\.89 GiB"):
            only(facts(), paged(context=8192, parallel=1, kv=whole - 1))

    def test_a_version_that_no_overhead_is_for_is_told_as_such(self):
        wanted = both(paged())
        vllm = msgspec.structs.replace(wanted.backends["vllm"], overhead=None)
        wanted = msgspec.structs.replace(wanted, backends={**wanted.backends, "vllm": vllm})
        with pytest.raises(NotYet, match=r"none of the overheads .*vllm-openai-cpu:v0\.32\.0"):
            allocate(wanted, "one", facts(), known(paged()), BOOKS)

    def test_files_that_nobody_can_read_need_memory_and_cache_said(self):
        wish = paged(source=HostPath(path="/srv/full"))
        lost = resolved(wish, shape=None, tensors=None)

        def asked(**said: int) -> Allocation:
            given = msgspec.structs.replace(wish, **said)
            return allocate(both(given), "one", facts(), lost, BOOKS)["full"]

        with pytest.raises(NotYet, match="memory"):
            asked()
        with pytest.raises(NotYet, match="KV cache"):
            asked(memory=8 * GIB)
        with pytest.raises(NotYet, match="KV cache"):
            asked(memory=8 * GIB, kv=8 * GIB)
        assert (asked(memory=8 * GIB, kv=2 * GIB).need.kv, asked(memory=8 * GIB, kv=GIB).memory) == (
            2 * GIB,
            8 * GIB,
        )

    @pytest.mark.parametrize("word", ["context", "parallel"])
    def test_what_is_advised_fits_and_the_next_more_does_not(self, word: str):
        host = facts(memory=8 * GIB)
        big = paged(context=8192, parallel=8)
        with pytest.raises(DoesNotFit) as refused:
            only(host, big)
        advised = int(re.search(rf"{word} (\d+)", refused.value.do or "")[1])  # type: ignore[index]
        assert only(host, msgspec.structs.replace(big, **{word: advised}))
        more = advised + (BLOCK if word == "context" else 1)
        with pytest.raises(DoesNotFit):
            only(host, msgspec.structs.replace(big, **{word: more}))

    def test_the_other_engine_is_advised_where_it_would_fit(self):
        with pytest.raises(DoesNotFit, match=r"a GGUF of it in Q4_K_M by llama-cpp \(1\.\d\d GiB\)"):
            only(facts(memory=3 * GIB), paged(context=4096, parallel=1))


MIB_PARTS = ("weights", "repack", "kv", "state", "compute", "engine", "cache", "files", "compile")


class TestCores:
    def test_a_thread_a_core_and_siblings_are_left_to_the_server(self):
        found = only(facts(cores=cores(4, smt=2)))
        assert (found.cpuset, found.threads, found.threads_batch) == ("0-7", 4, 4)

    @pytest.mark.parametrize(("count", "threads"), [(2, 2), (7, 7), (8, 7), (16, 14), (48, 44)])
    def test_where_there_are_none_large_hosts_leave_it_cores(self, count: int, threads: int):
        """One core or two stay with the system already; of what the model has, as many get no thread."""
        assert only(facts(cores=cores(count))).threads == threads

    def test_no_more_threads_than_a_quota(self):
        assert only(facts(cores=cores(4, smt=2), quota=2.5)).threads == 2
        assert only(facts(cores=cores(16), quota=8.0)).threads == 7

    def test_a_node_that_holds_it_is_all_it_gets_and_the_other_stays_free(self):
        found = allocated(numa(8, 2), paged())["full"]
        assert (found.ranks, found.mems) == (1, "0")
        assert found.cpuset in ("0-7", "0-6")
        assert "one NUMA node" in found.reasons["cpus"]
        later = allocated(numa(8, 2), paged(), placement("later", port=8101, cpus="numa:1"))
        assert later["later"].mems == "1"

    def test_the_node_with_the_memory_goes_before_the_one_with_more_cores(self):
        host = numa(8, 2, memory=16 * GIB)
        few = tuple(
            Node(id=node.id, memory=(2, 16)[node.id] * GIB, cpus=node.cpus) for node in host.memory.nodes
        )
        lame = msgspec.structs.replace(host.cpu, cores=host.cpu.cores[:12])
        host = msgspec.structs.replace(host, memory=msgspec.structs.replace(host.memory, nodes=few), cpu=lame)
        assert (only(host).ranks, only(host).mems) == (1, "1")

    def test_a_model_that_no_node_holds_is_dealt_out_to_ranks(self):
        one = only(facts(memory=64 * GIB), paged(context=8192, parallel=16))
        host = numa(8, 2, memory=one.memory - GIB)
        found = only(host, paged(context=8192, parallel=16))
        assert (found.ranks, found.mems) == (2, "0-1")
        assert found.threads % 2 == 0
        assert found.memory / 2 < one.memory - GIB
        assert "a rank on each" in found.reasons["mems"]

    def test_heads_that_cannot_be_dealt_out_keep_it_in_one_node_or_refused(self):
        odd = small(
            heads=15, attention=(AttentionLayers(layers=28, kv_heads=5, key_length=128, value_length=128),)
        )
        one = only(facts(memory=64 * GIB), shape=odd)
        with pytest.raises(DoesNotFit, match="of one NUMA node"):
            only(numa(8, 2, memory=one.memory - GIB), shape=odd)

    def test_cores_asked_for_in_two_nodes_are_two_ranks(self):
        found = only(numa(8, 2), paged(cpus="0-3,8-11"))
        assert (found.ranks, found.threads, found.mems) == (2, 6, "0-1")
        assert found.cpuset == "0-3,8-11"

    def test_a_cache_by_hand_is_each_ranks_and_has_to_hold_its_part_only(self):
        wish = paged(cpus="0-3,8-11", context=16384, parallel=1)
        part = only(numa(8, 2), wish).need.kv // 2
        by_hand = msgspec.structs.replace(wish, kv=part)
        assert only(numa(8, 2), by_hand).need.kv == 2 * part
        with pytest.raises(DoesNotFit, match="for each of 2 ranks does not hold one request of 16384"):
            only(numa(8, 2), msgspec.structs.replace(wish, kv=part - 1))

    def test_ranks_of_files_that_nobody_can_read_have_a_cache_each(self):
        wish = paged(source=HostPath(path="/srv/full"), cpus="0-3,8-11", bind="0-3|8-11", memory=9 * GIB)
        lost = resolved(wish, shape=None, tensors=None)

        def asked(kv: int) -> Allocation:
            given = msgspec.structs.replace(wish, kv=kv)
            return allocate(both(given), "one", numa(8, 2), lost, BOOKS)["full"]

        found = asked(2 * GIB)
        assert (found.ranks, found.need.kv, found.need.total) == (2, 4 * GIB, 9 * GIB)
        with pytest.raises(DoesNotFit, match="KV caches of 2 ranks"):
            asked(5 * GIB)

    def test_two_of_them_are_dealt_a_node_each(self):
        found = allocated(numa(8, 2), paged("a"), paged("b", port=8101))
        assert {each.mems for each in found.values()} == {"0", "1"}

    def test_a_node_without_room_beside_the_others_is_refused(self):
        one = only(facts(memory=64 * GIB))
        host = numa(8, 2, memory=one.memory + GIB)
        wishes = (paged("a", cpus="0-3"), paged("b", port=8101, cpus="4-7"))
        with pytest.raises(DoesNotFit, match="b needs .* of one NUMA node, and node 0 has") as refused:
            allocated(host, *wishes)
        assert "another node with `cpus`" in (refused.value.do or "")

    def test_cores_that_nobody_can_tell_apart_are_one_rank(self):
        found = only(untold(16))
        assert (found.ranks, found.threads) == (1, 7)
