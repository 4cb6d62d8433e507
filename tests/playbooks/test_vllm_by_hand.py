"""What people write by hand for vLLM on CPUs: heeded, rendered once, warned about, or refused in words."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import msgspec
import pytest

from cpudeploy.errors import HostError, ManifestError
from cpudeploy.manifest import Manifest, load
from cpudeploy.steps.binding import binding_warnings
from cpudeploy.types.deployment import Placement
from cpudeploy.types.facts import Facts
from cpudeploy.types.release import ContainerSpec
from tests.factories import GIB, cores

from .test_vllm_cpu import PLAYBOOK, allocation, following, processor, rendered

MANIFEST = """\
version: 1
name: rag
hosts: {one: {address: 192.0.2.1}}
backends: {vllm: {playbook: vllm-cpu, image: "vllm/vllm-openai-cpu:v0.21.0"}}
models:
  smol: {source: {huggingface: org/name}, backend: vllm, on: [one], port: 8100, SAID}
"""


def loaded(folder: Path, said: str) -> Manifest:
    path = folder / "inventory.yaml"
    path.write_text(MANIFEST.replace("SAID", said))
    return load(path)


def spec_of(placement: Placement, found: Facts | None = None) -> ContainerSpec:
    """Rendered as sizing would have it allotted on four cores with two threads each."""
    need = msgspec.structs.replace(allocation().need, kv=placement.kv or 3 * GIB)
    given = allocation(context=placement.context or 8192, parallel=placement.parallel, need=need)
    wish = msgspec.structs.asdict(placement)
    kept = ("args", "env", "bind", "params", "kv", "context", "parallel")
    found = found or processor("avx2", cores=cores(4, smt=2))
    return rendered(found, given, **{name: wish[name] for name in kept}).container


@pytest.mark.parametrize(
    ("said", "flags", "variables"),
    [
        (
            'args: ["--dtype=bfloat16", "--max-model-len=8192"]',
            {"--dtype": "bfloat16", "--max-model-len": "8192"},
            {},
        ),
        ('args: ["--max-model-len", "4096"]', {"--max-model-len": "4096"}, {}),
        ('args: ["--max-num-seqs", 16]', {"--max-num-seqs": "16"}, {}),
        ('args: ["--dtype", "float32"]', {"--dtype": "float32"}, {}),
        (
            "env: {VLLM_CPU_KVCACHE_SPACE: 8}",
            {"--kv-cache-memory-bytes": str(8 * GIB)},
            {"VLLM_CPU_KVCACHE_SPACE": None},
        ),
        ('env: {VLLM_CPU_KVCACHE_SPACE: "8"}', {"--kv-cache-memory-bytes": str(8 * GIB)}, {}),
        ('args: ["--kv-cache-memory-bytes=123456789"]', {"--kv-cache-memory-bytes": "123456789"}, {}),
        (
            "env: {VLLM_CPU_OMP_THREADS_BIND: nobind}",
            {},
            {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "4"},
        ),
        (
            "env: {VLLM_CPU_OMP_THREADS_BIND: 0-2}",
            {},
            {"VLLM_CPU_OMP_THREADS_BIND": "0-2", "OMP_NUM_THREADS": None},
        ),
        ("env: {VLLM_CPU_OMP_THREADS_BIND: auto}", {}, {"VLLM_CPU_OMP_THREADS_BIND": "auto"}),
        (
            'args: ["--seed", "3"], env: {VLLM_LOGGING_LEVEL: DEBUG}',
            {"--seed": "3"},
            {"VLLM_LOGGING_LEVEL": "DEBUG"},
        ),
    ],
)
def test_it_is_what_the_server_is_told(
    tmp_path: Path, said: str, flags: dict[str, str], variables: dict[str, str | None]
):
    spec = spec_of(loaded(tmp_path, said).deployment.placements[0])
    assert {flag: following(spec.command, flag) for flag in flags} == flags
    assert {name: spec.env.get(name) for name in variables} == variables


def test_a_switch_by_hand_is_there_or_not(tmp_path: Path):
    assert (
        "--enforce-eager"
        in spec_of(loaded(tmp_path, 'args: ["--enforce-eager"]').deployment.placements[0]).command
    )
    given = loaded(tmp_path, 'args: ["--no-enforce-eager"]').deployment.placements[0]
    assert "--enforce-eager" not in spec_of(given).command


@pytest.mark.parametrize(
    ("said", "where", "told"),
    [
        (
            'context: 4096, args: ["--max-model-len=8192"]',
            "6:103",
            "`--max-model-len=8192` wins over `context: 4096`",
        ),
        ('args: ["--dtype", "float16"]', "6:99", "answers may be nonsense"),
        ("env: {VLLM_CPU_OMP_THREADS_BIND: nobind}", "6:114", "threads wander over the model's CPUs"),
        ("env: {VLLM_CPU_OMP_THREADS_BIND: auto}", "6:114", "leaves a core of them idle"),
    ],
)
def test_what_harms_is_told_where_it_stands(tmp_path: Path, said: str, where: str, told: str):
    manifest = loaded(tmp_path, said)
    (warning,) = manifest.warnings
    assert warning.where == f"{tmp_path}/inventory.yaml:{where}"
    assert told in warning.what
    assert manifest.deployment.placements[0].warnings == (warning.what,)


@pytest.mark.parametrize(
    ("said", "where", "told"),
    [
        ("env: {VLLM_CPU_KVCACHE_SPACE: '1.5'}", "6:111", "a whole number of 1GiB, at least 1"),
        ("env: {VLLM_CPU_KVCACHE_SPACE: 0}", "6:111", "a whole number of 1GiB, at least 1"),
        ('args: ["--max-model-len=auto"]', "6:88", "can't be `auto`"),
        ('args: ["--max-model-len=-1"]', "6:88", "can't be `-1`"),
        ('args: ["--dtype=half"]', "6:88", "choose from `auto`, `bfloat16`, `float16`, `float32`"),
        ("env: {VLLM_CPU_OMP_THREADS_BIND: all}", "6:114", "nobind, auto, or the CPUs of each rank"),
        ('args: ["--kv-cache-memory-bytes=9"], env: {VLLM_CPU_KVCACHE_SPACE: 8}', "6:148", "says again what"),
        ('args: ["--api-key=x"]', "6:88", "would show in `docker inspect`; set `api_key`"),
        ("env: {VLLM_API_KEY: x}", "6:87", "would show in `docker inspect`; set `api_key`"),
        ('args: ["--port=9"]', "6:88", "set `listen` instead"),
        ('args: ["-tp=2"]', "6:88", "set `cpus` instead"),
        ('args: ["--speculative-config.method=ngram"]', "6:88", "a draft model's"),
        ('args: ["--spec-model=/models/draft"]', "6:88", "a draft model's"),
        ('args: ["--disable-hybrid-kv-cache-manager"]', "6:88", "what the engine takes on CPUs"),
        ('args: ["-pcp=2"]', "6:88", "`cpus` says which CPUs"),
        ('args: ["--hf-token=x"]', "6:88", "set `token` in `source`"),
        ('args: ["-n2"]', "6:88", "`cpus` says which CPUs"),
        ('args: ["--max-model-len.x=3"]', "6:88", "write `--max-model-len` alone"),
        ('args: ["--api-k=x"]', "6:88", "`--api-key` cut short"),
        ("env: {OMP_NUM_THREADS: 4}", "6:87", "`cpus` says where threads run"),
    ],
)
def test_what_cannot_be_honoured_is_refused_at_its_place(tmp_path: Path, said: str, where: str, told: str):
    with pytest.raises(ManifestError) as caught:
        loaded(tmp_path, said)
    (problem,) = caught.value.problems
    assert problem.where == f"{tmp_path}/inventory.yaml:{where}"
    assert told in f"{problem.what} {problem.do}"


@pytest.mark.parametrize(
    ("bind", "told"),
    [
        ("0-3|4-7", "2 ranks, and smol runs as 1"),
        ("6-9", "CPUs 8-9, and smol runs on 0-7"),
    ],
)
def test_lists_that_can_not_be_bound_are_refused_before_anything_starts(tmp_path: Path, bind: str, told: str):
    said = f"cpus: 0-7, env: {{VLLM_CPU_OMP_THREADS_BIND: '{bind}'}}"
    with pytest.raises(HostError, match=told):
        spec_of(loaded(tmp_path, said).deployment.placements[0])


def test_two_threads_on_one_core_are_told(tmp_path: Path):
    found = processor("avx2", cores=cores(4, smt=2))
    assert isinstance(found.cpu.cores, tuple)
    pair = ",".join(str(cpu) for cpu in found.cpu.cores[0].cpus)
    said = "env: {{VLLM_CPU_OMP_THREADS_BIND: '{}'}}"
    shared = loaded(tmp_path, said.format(pair)).deployment.placements[0]
    (warning,) = binding_warnings(shared, found.cpu)
    assert "are one core" in warning
    apart = loaded(tmp_path, said.format(",".join(str(core.cpus[0]) for core in found.cpu.cores)))
    assert binding_warnings(apart.deployment.placements[0], found.cpu) == ()


BITS = (
    "--max-model-len=2048",
    "--max_num_seqs=3",
    "--dtype=float32",
    "--enforce-eager",
    "--no-enforce-eager",
    "--kv-cache-memory-bytes=1073741824",
    "--seed=1",
)
VARIABLES = ("VLLM_CPU_KVCACHE_SPACE: 2", "VLLM_CPU_OMP_THREADS_BIND: nobind", "VLLM_LOGGING_LEVEL: INFO")


def test_whatever_is_written_by_hand_no_flag_is_given_twice(tmp_path: Path):
    chance = random.Random(5)
    tried = 0
    for _ in range(60):
        words = chance.sample(BITS, chance.randint(1, 4))
        names = chance.sample(VARIABLES, chance.randint(0, 2))
        said = f"args: [{', '.join(words)}], env: {{{', '.join(names)}}}"
        try:
            placement = loaded(tmp_path, said).deployment.placements[0]
        except ManifestError as error:
            # The only fault there is in any of these: two that say the same.
            assert all("says again what" in problem.what for problem in error.problems)
            continue
        tried += 1
        command = [word.partition("=")[0].replace("_", "-") for word in spec_of(placement).command]
        flags = [word for word in command if word.startswith("-")]
        assert len(flags) == len(set(flags)), said
    assert tried > 10


def test_bits_cover_every_flag_that_may_be_written():
    flags = {word.partition("=")[0].replace("_", "-") for word in BITS} | {
        name.partition(":")[0] for name in VARIABLES
    }
    assert set(itertools.chain.from_iterable((*each.flags, *each.env) for each in PLAYBOOK.by_hand)) <= flags
