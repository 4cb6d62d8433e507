"""The llama.cpp playbook against the options that a real server knows, and what it lets a manifest say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cpudeploy.errors import ManifestError
from cpudeploy.manifest import load, load_playbook
from tests.factories import placement, resolved
from tests.steps.wishes import context_of, instances_of

KNOWN = frozenset((Path(__file__).parent / "llama-server-b11434.txt").read_text().splitlines()[1:])
OLDER = {"--mlock", "--mmap", "--no-mmap", "LLAMA_ARG_MLOCK", "LLAMA_ARG_MMAP"}
"""What builds before --load-mode had."""
PLAYBOOK = load_playbook("llama-cpp")
MANIFEST = """\
version: 1
name: rag
hosts: {one: {address: 192.0.2.1}}
backends: {llama: {playbook: llama-cpp, image: "ghcr.io/ggml-org/llama.cpp:server-b9000", params: {PARAMS}}}
models:
  m: {source: {huggingface: org/name}, backend: llama, on: [one], port: 8100, args: [ARGS], env: {ENV}}
"""


def problems(tmp_path: Path, *, params: str = "", args: str = "", env: str = "") -> list[str]:
    path = tmp_path / "inventory.yaml"
    path.write_text(MANIFEST.replace("PARAMS", params).replace("ARGS", args).replace("ENV", env))
    try:
        load(path)
    except ManifestError as error:
        return [f"{problem.what} {problem.do}" for problem in error.problems]
    return []


def command(*, projector: str = "", **params: object) -> tuple[str, ...]:
    context = context_of(placement())
    backend = msgspec.structs.replace(context.deployment.backends["llama"], params=params)
    weights = msgspec.structs.replace(resolved(placement()).weights["smol@one"], projector=projector)
    changed = msgspec.structs.replace(context.deployment, backends={"llama": backend})
    given = msgspec.structs.replace(context.resolved, weights={"smol@one": weights})
    context = type(context)(deployment=changed, host=context.host, facts=context.facts, resolved=given)
    return instances_of(context)["rag_smol_0"].container.command


def following(words: tuple[str, ...], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_every_option_it_gives_or_refuses_is_one_the_server_knows():
    assert PLAYBOOK.container is not None
    given = {word for argument in PLAYBOOK.container.arguments for word in argument.args if word[0] == "-"}
    spelt = {flag for argument in PLAYBOOK.container.arguments for flag in argument.flags}
    refused = {word for refusal in PLAYBOOK.refuses for word in (*refusal.flags, *refusal.env)}
    assert given <= spelt
    assert (spelt | refused) - OLDER <= KNOWN


def test_cache_types_and_batch_are_always_said():
    words = command()
    assert following(words, "--cache-type-k") == following(words, "--cache-type-v") == "f16"
    assert following(words, "--ubatch-size") == "512"
    words = command(kv_type="q8_0", ubatch=1024)
    assert following(words, "--cache-type-k") == following(words, "--cache-type-v") == "q8_0"
    assert following(words, "--ubatch-size") == "1024"


def test_a_model_that_sees_is_given_its_projector():
    assert "--mmproj" not in command()
    assert following(command(projector="mmproj-F16.gguf"), "--mmproj") == "/models/mmproj-F16.gguf"


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("--swa-full", "memory is counted with the window"),
        ("-kvu", "ends everybody's"),
        ("--no-mmap", "weights that are mapped"),
        ("--load-mode=none", "weights that are mapped"),
        ("--model_draft", "a draft model's memory"),
        ("--hf-repo", "`source` says"),
    ],
)
def test_what_sizing_cannot_see_is_refused_with_the_reason(tmp_path: Path, argument: str, why: str):
    (told,) = problems(tmp_path, args=f'"{argument}"')
    assert why in told


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("LLAMA_ARG_SWA_FULL", "memory is counted with the window"),
        ("LLAMA_ARG_MMPROJ", "its memory is counted then"),
        ("LLAMA_API_KEY", "would show in `docker inspect`"),
    ],
)
def test_a_variable_that_says_the_same_is_refused_as_well(tmp_path: Path, variable: str, why: str):
    (told,) = problems(tmp_path, env=f'{variable}: "1"')
    assert variable in told
    assert why in told


def test_what_only_changes_answers_may_be_said(tmp_path: Path):
    assert problems(tmp_path, args='"--no-webui", "--temp", "0.2"', env="LLAMA_ARG_TIMEOUT: '60'") == []


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ("kv_type: q9_0", "choose from `f16`, `bf16`, `q8_0`"),
        ("ubatch: 16", "at least 32"),
        ("ubatch: 4096", "at most 2048"),
        ("ubatch: many", "another type"),
        ("kvtype: f16", "did you mean `kv_type`"),
    ],
)
def test_parameters_are_checked_where_they_are_written(tmp_path: Path, params: str, why: str):
    (told,) = problems(tmp_path, params=params)
    assert why in told
