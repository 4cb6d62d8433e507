"""The whole room: a deployment and its hosts' facts in; Resolved out, and what can't be had."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.resolve import resolve
from cpudeploy.resolve.references import parse
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Backend, Deployment, HuggingFace, ImageMirror, Mirrors, Registry
from cpudeploy.types.facts import Blob, Facts, Image, Unknown, Weights
from cpudeploy.types.resolved import Resolved, ResolvedWeights, WeightFile

from .builders import deployment, facts, placement
from .gguf_files import write_gguf
from .hubs import Repo, run_hub
from .registries import USER, Authority, RunningRegistry, free_port
from .web_server import Reply, Request, serve

SOURCE = HuggingFace(repo="a/b", quant="Q4_0")
OTHER = "sha256:" + "7" * 64


@pytest.fixture(autouse=True)
def no_way_out(secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub itself can't be reached: its proxy is dead."""
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def release(reference: str, digest: str, created: str) -> dict[str, Any]:
    instance = {"image_reference": reference, "container": {"image": f"m.corp/x@{digest}"}}
    return {"created": created, "instances": {"rag_chat_0": instance}}


def whole(
    wanted: Deployment, hosts: dict[str, Facts], secrets: Secrets, cache: Path | None = None
) -> Resolved:
    """What resolving gives where nothing is missing."""
    found, missing = resolve(wanted, hosts, {}, secrets, cache=cache)
    assert not missing
    return found


def missing(wanted: Deployment, hosts: dict[str, Facts], secrets: Secrets) -> dict[str, str]:
    _, found = resolve(wanted, hosts, {}, secrets, cache=None)
    return found


def test_a_deployment_is_resolved_whole(
    secrets: Secrets, private: RunningRegistry, authority: Authority, tmp_path: Path
) -> None:
    digest = private.push("llm/whole", "1")
    model = write_gguf(tmp_path / "x.gguf").read_bytes()
    with run_hub({"a/b": Repo({"x-Q4_0.gguf": model, "x-Q8_0.gguf": b"GGUF"})}) as hub:
        login = SecretRef(kind="from_env", name="TEST_PASSWORD")
        wanted = deployment(
            placement(source=SOURCE),
            placement(source=SOURCE, host="h2"),
            image=f"{private.address}/llm/whole:1",
            mirrors=Mirrors(huggingface=hub.url),
            registries=(Registry(scope=private.address, username=USER, password=login, ca=authority.pem),),
        )
        hosts = {"h1": facts("h1"), "h2": facts("h2")}
        found = whole(wanted, hosts, secrets, tmp_path / "cache")
        listings = [request for request in hub.server.requests if "/api/" in request.path]
    assert found.images["llama"].digest == digest
    assert set(found.weights) == {"chat@h1", "chat@h2"}
    assert found.weights["chat@h1"] == found.weights["chat@h2"]
    assert found.weights["chat@h1"].entry == "x-Q4_0.gguf"
    assert found.secrets == {}
    assert len(listings) == 1


def test_as_long_as_somebody_lets_us_wait_it_is_told_who(
    secrets: Secrets, private: RunningRegistry, authority: Authority
) -> None:
    private.push("llm/waiting", "1")
    told: list[list[str]] = []
    heard = threading.Event()

    def answer(_: Request) -> Reply:
        heard.wait(30)
        return Reply(404)

    def waiting(awaited: Sequence[str]) -> None:
        told.append(list(awaited))
        if told[-1] == ["model a/b"]:
            heard.set()

    with serve(answer) as slow:
        login = SecretRef(kind="from_env", name="TEST_PASSWORD")
        wanted = deployment(
            placement(source=SOURCE),
            image=f"{private.address}/llm/waiting:1",
            mirrors=Mirrors(huggingface=slow.url),
            registries=(Registry(scope=private.address, username=USER, password=login, ca=authority.pem),),
        )
        _, lacking = resolve(
            wanted, {"h1": facts("h1")}, {}, secrets, cache=None, waiting=waiting, waiting_s=0.05
        )
    assert list(lacking) == ["chat@h1"]
    assert told[-1] == ["model a/b"]


def test_unreachable_and_unknown_hosts_take_part_in_nothing(secrets: Secrets, plain: RunningRegistry) -> None:
    digest = plain.push("copies/some", "1")
    rule = ImageMirror(match="registry.invalid/", places=(f"http://{plain.address}/copies/",))
    wanted = deployment(
        placement(), placement(host="h2"), image="registry.invalid/some:1", mirrors=Mirrors(images=(rule,))
    )
    unknown = facts("h2", arch=Unknown(unknown="uname failed"))  # type: ignore[arg-type]
    found = whole(wanted, {"h2": unknown}, secrets)
    assert found.images["llama"].digest == digest


def test_a_host_of_another_platform_is_nothing_to_the_others(
    secrets: Secrets, plain: RunningRegistry
) -> None:
    """The image says what it is built for; whether that is the host's is judged where the host is planned."""
    plain.push("copies/platform", "1")
    rule = ImageMirror(match="registry.invalid/", places=(f"http://{plain.address}/copies/",))
    wanted = deployment(
        placement(),
        placement(host="h2"),
        image="registry.invalid/platform:1",
        mirrors=Mirrors(images=(rule,)),
    )
    image = whole(wanted, {"h1": facts(), "h2": facts("h2", arch="arm64")}, secrets).images["llama"]
    assert image.platforms == ("linux/amd64",)
    assert image.built_for("amd64") and not image.built_for("arm64")


def test_the_newest_release_of_the_same_reference_speaks_for_a_blocked_origin(
    secrets: Secrets, plain: RunningRegistry
) -> None:
    released = plain.push("copies/released", "1")
    plain.push("copies/released", "1", ["linux/amd64", "linux/arm64"])
    reference = f"127.0.0.1:{free_port()}/released:1"
    rule = ImageMirror(match=f"{parse(reference).registry}/", places=(f"http://{plain.address}/copies/",))
    wanted = deployment(placement(), image=reference, mirrors=Mirrors(images=(rule,)))
    releases = {
        "0001-a": release(reference, OTHER, "2026-01-01T00:00:00Z"),
        "0002-b": release(reference, released, "2026-02-01T00:00:00Z"),
        "0003-c": release("docker.io/other/x:1", OTHER, "2026-03-01T00:00:00Z"),
        "0004-d": None,
        "0005-e": {"instances": "nonsense"},
    }
    found = whole(wanted, {"h1": facts(releases={"rag": releases})}, secrets)
    assert (found.images["llama"].digest, found.images["llama"].authority) == (released, "release")


def test_what_all_hosts_hold_needs_no_registry_and_what_one_lacks_does(secrets: Secrets) -> None:
    reference = f"127.0.0.1:{free_port()}/held:1@{OTHER}"
    wanted = deployment(placement(), placement(host="h2"), image=reference)
    image = Image(id="i", references=(), size=1, platform="linux/amd64")
    having, lacking = facts("h1", images={f"m.corp/held@{OTHER}": image}), facts("h2")
    also = facts("h2", images={f"elsewhere/held@{OTHER}": image})
    assert whole(wanted, {"h1": having, "h2": also}, secrets).images["llama"].digest == OTHER
    for hosts in ({"h1": having, "h2": lacking}, {"h1": having}):
        assert set(missing(wanted, hosts, secrets)) == {"chat@h1", "chat@h2"}


def test_all_that_a_model_lacks_is_told_at_once_with_where_and_what_to_do(secrets: Secrets) -> None:
    dead = f"127.0.0.1:{free_port()}"
    source, key = HuggingFace(repo="not a name"), SecretRef(kind="from_env", name="NO_SUCH_VARIABLE")
    wanted = deployment(placement(source=source, api_key=key), image=f"{dead}/x:1")
    told = missing(wanted, {"h1": facts()}, secrets)["chat@h1"]
    assert "\n" not in told
    image, weights, secret = told.split("; also ")
    assert image.startswith(f"image {dead}/x:1: no place has it: {dead}/x:1: connection refused; do: ")
    assert "add a mirror" in image
    assert weights.startswith("huggingface not a name@main: not a repository name")
    assert "; do: " in weights and "owner/name" in weights
    assert (
        secret
        == "environment variable NO_SUCH_VARIABLE is not set; do: export NO_SUCH_VARIABLE before running"
    )


def test_what_one_model_lacks_is_nothing_to_the_others(
    secrets: Secrets, plain: RunningRegistry, tmp_path: Path
) -> None:
    digest = plain.push("copies/lacking", "1")
    rule = ImageMirror(match="registry.invalid/", places=(f"http://{plain.address}/copies/",))
    known, unknown = (SecretRef(kind="from_env", name=name) for name in ("TEST_PASSWORD", "NO_SUCH_VARIABLE"))
    typo = Backend(name="typo", playbook="llama-cpp", image="registry.invalid/lackin:1")
    with run_hub({"a/b": Repo({"x-Q4_0.gguf": write_gguf(tmp_path / "x.gguf").read_bytes()})}) as hub:
        wanted = deployment(
            placement(source=SOURCE, api_key=known),
            placement(source=SOURCE, host="h2"),
            placement(model="mistyped", source=HuggingFace(repo="a/bb")),
            placement(model="keyless", source=SOURCE, api_key=unknown),
            placement(model="imageless", source=SOURCE, backend="typo"),
            image="registry.invalid/lacking:1",
            mirrors=Mirrors(images=(rule,), huggingface=hub.url),
        )
        wanted = msgspec.structs.replace(wanted, backends={**wanted.backends, "typo": typo})
        hosts = {"h1": facts("h1"), "h2": facts("h2")}
        found, lacking = resolve(wanted, hosts, {}, secrets, cache=None)
    assert set(lacking) == {"mistyped@h1", "keyless@h1", "imageless@h1"}
    assert "huggingface a/bb@main" in lacking["mistyped@h1"]
    assert "NO_SUCH_VARIABLE" in lacking["keyless@h1"]
    assert "image registry.invalid/lackin:1" in lacking["imageless@h1"]
    assert found.images["llama"].digest == digest and set(found.images) == {"llama"}
    assert set(found.weights) == {"chat@h1", "chat@h2", "keyless@h1", "imageless@h1"}


def test_what_is_no_answer_of_the_outside_world_is_raised(
    secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("cpudeploy.resolve.resolving.resolve_weights", broken)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        missing(deployment(placement()), {"h1": facts()}, secrets)


def test_a_registrys_password_that_is_missing_is_found_before_anything_is_pulled(secrets: Secrets) -> None:
    place = f"127.0.0.1:{free_port()}"
    password = SecretRef(kind="from_env", name="NO_SUCH_VARIABLE")
    wanted = deployment(
        placement(),
        image=f"{place}/x@{OTHER}",
        registries=(Registry(scope=place, username=USER, password=password),),
    )
    image = Image(id="i", references=(), size=1, platform="linux/amd64")
    assert "NO_SUCH_VARIABLE" in missing(wanted, {"h1": facts(images={OTHER: image})}, secrets)["chat@h1"]


def holder(had: ResolvedWeights) -> Facts:
    """A host that holds what was resolved, by its last release."""
    instance = {"model": "chat", "source": had.source, "tree": had.tree}
    files = [file for file in had.files if isinstance(file, WeightFile)]
    return facts(
        releases={"rag": {"0001-a": {"instances": {"rag_chat_0": instance}}, "0002-b": None}},
        weights=Weights(
            blobs={
                file.sha256: Blob(size=file.size, inode=inode, verified=True)
                for inode, file in enumerate(files)
            },
            trees={had.tree: {file.name: inode for inode, file in enumerate(files)}},
        ),
    )


def test_what_the_last_release_had_needs_no_hub_where_every_host_holds_it(
    secrets: Secrets, plain: RunningRegistry, tmp_path: Path
) -> None:
    plain.push("copies/hubless", "1")
    rule = ImageMirror(match="registry.invalid/", places=(f"http://{plain.address}/copies/",))
    model = write_gguf(tmp_path / "x.gguf").read_bytes()

    def wanted(source: HuggingFace) -> Deployment:
        mirrors = Mirrors(images=(rule,), huggingface=hub.url)
        return deployment(placement(source=source), image="registry.invalid/hubless:1", mirrors=mirrors)

    def found(source: HuggingFace, host: Facts) -> ResolvedWeights:
        return whole(wanted(source), {"h1": host}, secrets, tmp_path / "cache").weights["chat@h1"]

    deep = HuggingFace(repo="a/b", files=("q4/x-*.gguf",), mmproj="vision/*f16.gguf")
    files = {
        "x-Q4_0.gguf": model,
        "x-Q8_0.gguf": b"GGUF",
        "q4/x-Q4_1.gguf": model,
        "vision/mmproj-f16.gguf": b"G",
    }
    with run_hub({"a/b": Repo(files)}) as hub:
        first = {source: found(source, facts()) for source in (SOURCE, deep)}
    for source, had in first.items():
        again = found(source, holder(had))
        assert (again.tree, again.source, again.entry, again.shape, again.projector) == (
            had.tree,
            had.source,
            had.entry,
            had.shape,
            had.projector,
        )
        assert "every host holds the last release's files" in again.notes[0]
    holding = holder(first[SOURCE])
    touched = msgspec.structs.replace(holding, weights=Weights(trees=holding.weights.trees))
    for source, host in (
        (SOURCE, facts()),
        (SOURCE, touched),
        (HuggingFace(repo="a/b", quant="Q8_0"), holding),
        (HuggingFace(repo="a/b", quant="Q4_0", revision="v2"), holding),
    ):
        assert "no Hub has it" in missing(wanted(source), {"h1": host}, secrets)["chat@h1"]
