from __future__ import annotations

import pytest

from cpudeploy.errors import RegistryError
from cpudeploy.manifest.images import reference_fault
from cpudeploy.resolve.references import covers, parse, rewrite
from cpudeploy.types.deployment import ImageMirror

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("debian", "docker.io/library/debian"),
        ("debian:12", "docker.io/library/debian:12"),
        ("vllm/vllm-openai-cpu:v0.21.0", "docker.io/vllm/vllm-openai-cpu:v0.21.0"),
        ("index.docker.io/vllm/x:1", "docker.io/vllm/x:1"),
        ("docker.io/debian", "docker.io/library/debian"),
        ("ghcr.io/ggml-org/llama.cpp:server-b9000", "ghcr.io/ggml-org/llama.cpp:server-b9000"),
        ("localhost/x", "localhost/x"),
        ("localhost:5000/x:1", "localhost:5000/x:1"),
        ("harbor.corp:8443/a/b/c", "harbor.corp:8443/a/b/c"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1"),
        (f"debian@{DIGEST}", f"docker.io/library/debian@{DIGEST}"),
        (f"harbor.corp/x:1@{DIGEST}", f"harbor.corp/x:1@{DIGEST}"),
    ],
)
def test_short_forms_are_made_explicit(written: str, normal: str) -> None:
    assert str(parse(written)) == normal
    assert parse(normal) == parse(written)


def test_a_digest_is_asked_for_rather_than_the_tag() -> None:
    assert parse(f"x:1@{DIGEST}").wanted == DIGEST
    assert parse("x:1").wanted == "1"


def test_no_tag_is_added_but_latest_is_what_a_registry_is_asked_for() -> None:
    assert parse("debian").tag is None
    assert parse("debian").wanted == "latest"


def test_docker_hubs_api_lives_elsewhere_than_its_name() -> None:
    assert parse("debian").api_host == "registry-1.docker.io"
    assert parse("ghcr.io/a/b").api_host == "ghcr.io"


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Debian",
        "x:",
        "x:-1",
        "x@sha256:12",
        "x@md5:" + "0" * 32,
        "a//b",
        "-x",
        "a b",
        "x/../y",
        "h:99x/y",
        "A/b:1",
        "r..io/x",
        "https://ghcr.io/x/y:1",
    ],
)
def test_what_no_registry_would_take_is_refused_with_the_part(written: str) -> None:
    with pytest.raises(RegistryError) as error:
        parse(written)
    assert error.value.do
    assert reference_fault(written) == (error.value.what, error.value.do)  # the manifest says the same


def places(written: str, *rules: ImageMirror) -> list[str]:
    return [str(candidate.reference) for candidate in rewrite(parse(written), rules)]


def test_a_registry_prefix_is_replaced_and_the_origin_comes_last() -> None:
    rule = ImageMirror(match="ghcr.io/", places=("m.daocloud.io/ghcr.io/", "ghcr.m.daocloud.io/"))
    assert places("ghcr.io/ggml-org/llama.cpp:server", rule) == [
        "m.daocloud.io/ghcr.io/ggml-org/llama.cpp:server",
        "ghcr.m.daocloud.io/ggml-org/llama.cpp:server",
        "ghcr.io/ggml-org/llama.cpp:server",
    ]


def test_a_whole_repository_is_replaced_by_a_whole_repository() -> None:
    rule = ImageMirror(
        match="docker.io/vllm/vllm-openai-cpu", places=("swr.example.com/gpustack/vllm-openai-cpu",)
    )
    assert places("vllm/vllm-openai-cpu:v1", rule)[0] == "swr.example.com/gpustack/vllm-openai-cpu:v1"
    assert places("vllm/vllm-openai-cpu-extra:v1", rule) == ["docker.io/vllm/vllm-openai-cpu-extra:v1"]


def test_short_forms_match_in_rules_as_in_references() -> None:
    assert places("docker.io/vllm/x", ImageMirror(match="vllm/x", places=("m.corp/x",)))[0] == "m.corp/x"
    assert places("vllm/x", ImageMirror(match="vllm/", places=("m.corp/v/",)))[0] == "m.corp/v/x"
    assert (
        places("debian", ImageMirror(match="docker.io/", places=("m.corp/",)))[0] == "m.corp/library/debian"
    )


def test_a_prefix_ends_where_a_name_ends() -> None:
    assert len(places("ghcr.io.evil.com/x/y", ImageMirror(match="ghcr.io/", places=("m.corp/",)))) == 1


def test_a_place_may_be_plain_http_and_keeps_the_digest() -> None:
    rule = ImageMirror(match="ghcr.io/", places=("http://10.0.0.1:5000/ghcr/",))
    mirror, origin = rewrite(parse(f"ghcr.io/a/b:1@{DIGEST}"), [rule])
    assert mirror.insecure and not origin.insecure
    assert str(mirror.reference) == f"10.0.0.1:5000/ghcr/a/b:1@{DIGEST}"


def test_a_mirrors_own_digest_is_for_its_tag_only() -> None:
    rule = ImageMirror(match="vllm/x", places=("m.corp/x",), digests={"v1": DIGEST})
    assert rewrite(parse("vllm/x:v1"), [rule])[0].own_digest == DIGEST
    assert rewrite(parse("vllm/x:v2"), [rule])[0].own_digest is None


def test_the_same_place_is_asked_once() -> None:
    rule = ImageMirror(match="ghcr.io/", places=("m.corp/", "m.corp/"))
    assert places("ghcr.io/a/b", rule, rule) == ["m.corp/a/b", "ghcr.io/a/b"]


@pytest.mark.parametrize(
    ("scope", "name", "speaks"),
    [
        ("harbor.corp", "harbor.corp/llm/x", True),
        ("harbor.corp/llm", "harbor.corp/llm/x", True),
        ("harbor.corp/llm", "harbor.corp/llm", True),
        ("harbor.corp/llm", "harbor.corp/llm2/x", False),
        ("harbor.corp", "harbor.corp.evil.com/x", False),
        ("harbor.corp", "harbor.corp:8443/x", False),
        ("index.docker.io", "docker.io/library/debian", True),
    ],
)
def test_a_login_speaks_for_its_scope_only(scope: str, name: str, speaks: bool) -> None:
    assert covers(scope, name) is speaks
