"""The vLLM-CPU playbook rendered: what its server is told on one host and another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.manifest import load_playbook
from cpudeploy.steps.context import HostContext
from cpudeploy.steps.cpu_flags import refuse_missing_flags
from cpudeploy.steps.wanted import wanted_instance
from cpudeploy.types.allocation import Allocation, MemoryNeed
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Backend
from cpudeploy.types.facts import Facts
from cpudeploy.types.release import Instance
from tests.factories import DIGEST, GIB, cores, deployment, facts, placement, resolved

PLAYBOOK = load_playbook("vllm-cpu")
KNOWN_21, KNOWN_32 = (
    frozenset((Path(__file__).parent / f"vllm-{version}.txt").read_text().splitlines()[1:])
    for version in ("0.21.0", "0.32.0")
)
OLDER = {"--swap-space", "--task"}
"""What earlier versions had."""
BACKEND = Backend(name="vllm", playbook="vllm-cpu", image="vllm/vllm-openai-cpu:v0.21.0")


def allocation(**changes: Any) -> Allocation:
    need = MemoryNeed(weights=2 * GIB, repack=0, kv=3 * GIB, state=0, compute=0, engine=2 * GIB, cache=0)
    values: dict[str, Any] = {
        "model": "smol",
        "host": "one",
        "instance": 0,
        "cpuset": "0-7",
        "threads": 4,
        "threads_batch": 8,
        "context": 8192,
        "parallel": 4,
        "context_total": 32768,
        "memory": 8 * GIB,
        "need": need,
    }
    return Allocation(**{**values, **changes})


def following(words: tuple[str, ...], flag: str) -> str:
    return words[words.index(flag) + 1]


def rendered(found: Facts, given: Allocation, version: str = "v0.21.0", **wish: Any) -> Instance:
    wanted = placement(backend="vllm", served_name="Smol 1", **wish)
    scope = deployment(wanted)
    told = resolved(wanted)
    weights = msgspec.structs.replace(told.weights["smol@one"], entry="")
    context = HostContext(deployment=scope, host=scope.hosts["one"], facts=found, resolved=told)
    image = msgspec.structs.replace(
        told.images["llama"], reference=f"docker.io/vllm/vllm-openai-cpu:{version}", digest=DIGEST
    )
    backend = msgspec.structs.replace(BACKEND, image=f"vllm/vllm-openai-cpu:{version}")
    return wanted_instance(context, wanted, given, backend, PLAYBOOK, image, weights)


def processor(*flags: str, arch: str = "amd64", **changes: Any) -> Facts:
    found = facts(**changes)
    return msgspec.structs.replace(
        found,
        cpu=msgspec.structs.replace(found.cpu, flags=flags),
        os=msgspec.structs.replace(found.os, arch=arch),
    )


def test_one_node_one_rank_bound_to_a_cpu_of_each_core():
    spec = rendered(processor("avx512_bf16", cores=cores(4, smt=2)), allocation()).container
    assert spec.command == (
        *("/models", "--served-model-name", "Smol 1", "--host", "0.0.0.0", "--port", "8000"),
        *("--max-model-len", "8192", "--max-num-seqs", "4", "--dtype", "bfloat16"),
        *("--tensor-parallel-size", "1", "--kv-cache-memory-bytes", str(3 * GIB)),
    )
    assert spec.env["VLLM_CPU_OMP_THREADS_BIND"] == "0-3"
    assert spec.env["HF_HUB_OFFLINE"] == "1"
    assert spec.shm == 4 * GIB
    assert spec.cap_add == ("SYS_NICE",)
    assert "seccomp=unconfined" in spec.security_opt
    weights, cache = spec.mounts
    assert weights.read_only and weights.target == "/models"
    assert (cache.source, cache.read_only) == ("rag_smol_cache", False)


def test_two_nodes_are_two_ranks_each_within_its_own():
    found = processor("avx512f", "avx512_bf16", cores=cores(8, smt=2, nodes=2))
    spec = rendered(found, allocation(cpuset="0-15", threads=7, ranks=2)).container
    assert spec.env["VLLM_CPU_OMP_THREADS_BIND"] == "0-2|4-6"
    assert following(spec.command, "--tensor-parallel-size") == "2"


@pytest.mark.parametrize(
    ("arch", "flags", "dtype"),
    [
        ("amd64", ("avx2",), "float32"),
        ("amd64", ("avx2", "avx512f"), "float32"),
        ("amd64", ("avx2", "avx512f", "avx512_bf16"), "bfloat16"),
        ("amd64", ("avx2", "avx512f", "amx_tile", "amx_bf16"), "bfloat16"),
        ("arm64", ("asimd",), "float32"),
        ("arm64", ("asimd", "bf16"), "bfloat16"),
    ],
)
def test_the_type_is_one_the_processor_can(arch: str, flags: tuple[str, ...], dtype: str):
    command = rendered(processor(*flags, arch=arch), allocation()).container.command
    assert following(command, "--dtype") == dtype


@pytest.mark.parametrize(
    ("version", "flag", "variable", "threads"),
    [
        ("v0.12.0", None, "3", "4"),
        ("v0.19.1", None, "3", "4"),
        ("v0.20.0", str(3 * GIB), None, None),
        ("v0.32.0", str(3 * GIB), None, None),
        ("latest", str(3 * GIB), None, None),
    ],
)
def test_what_a_version_heeds_is_what_it_is_told(
    version: str, flag: str | None, variable: str | None, threads: str | None
):
    spec = rendered(processor("avx512f", cores=cores(4, smt=2)), allocation(), version).container
    given = following(spec.command, "--kv-cache-memory-bytes") if flag else None
    assert given == flag
    assert ("--kv-cache-memory-bytes" in spec.command) == (flag is not None)
    assert spec.env.get("VLLM_CPU_KVCACHE_SPACE") == variable
    assert spec.env.get("OMP_NUM_THREADS") == threads


def test_threads_that_nobody_binds_are_counted():
    spec = rendered(processor("avx2", cores=cores(4, smt=2)), allocation(), bind="nobind").container
    assert spec.env["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert spec.env["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize("known", [KNOWN_21, KNOWN_32], ids=["0.21", "0.32"])
def test_every_option_it_gives_or_speaks_of_is_one_the_server_knows(known: frozenset[str]):
    assert PLAYBOOK.container is not None
    given = {word for each in PLAYBOOK.container.arguments for word in each.args if word[0] == "-"}
    spelt = {flag for each in PLAYBOOK.container.arguments for flag in each.flags}
    by_hand = {word for each in PLAYBOOK.by_hand for word in (*each.flags, *each.env)}
    refused = {word for each in PLAYBOOK.refuses for word in (*each.flags, *each.env)}
    variables = {name for name in PLAYBOOK.container.env if name.startswith("VLLM_")}
    others = {name for name in refused if name[0] != "-" and not name.startswith("VLLM_")}
    # The parser adds a negation to every switch by itself.
    switches = {flag for flag in spelt | by_hand if flag.startswith("--no-")}
    assert given <= spelt
    assert (spelt | by_hand | variables) - switches <= known
    assert refused - OLDER - others <= KNOWN_21 | KNOWN_32


def test_the_key_is_a_file_and_never_an_argument_or_a_variable():
    key = SecretRef(kind="from_env", name="KEY")
    instance = rendered(processor("avx2"), allocation(), api_key=key)
    assert [secret.target for secret in instance.container.secrets] == ["/run/secrets/api_key"]
    assert not any("api-key" in word for word in instance.container.command)
    assert "VLLM_API_KEY" not in instance.container.env
    assert instance.gate.checks[-1].status == 401


@pytest.mark.parametrize(
    ("version", "flags", "refused"),
    [
        ("v0.21.0", ("avx2",), ""),
        ("v0.16.0", ("avx2",), "avx512f"),
        ("v0.16.0", ("avx2", "avx512f"), ""),
        ("v0.21.0", ("avx",), "avx2"),
    ],
)
def test_older_images_need_more_of_the_processor(version: str, flags: tuple[str, ...], refused: str):
    scope = deployment()
    context = HostContext(
        deployment=scope, host=scope.hosts["one"], facts=processor(*flags), resolved=resolved()
    )
    backend = msgspec.structs.replace(BACKEND, image=f"vllm/vllm-openai-cpu:{version}")
    if not refused:
        assert refuse_missing_flags(context, backend, PLAYBOOK) == ()
        return
    with pytest.raises(HostError, match=refused):
        refuse_missing_flags(context, backend, PLAYBOOK)
