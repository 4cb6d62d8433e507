"""The whole room: a deployment and its hosts' facts in, Resolved out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.errors import HostError, HubError, RegistryError, SecretError
from cpudeploy.resolve import resolve
from cpudeploy.resolve.references import parse
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Deployment, HuggingFace, ImageMirror, Mirrors, Registry
from cpudeploy.types.facts import Blob, Facts, Image, Unknown, Weights
from cpudeploy.types.resolved import ResolvedWeights, WeightFile

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
        found = resolve(wanted, hosts, {}, secrets, cache=tmp_path / "cache")
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
        with pytest.raises(HubError):
            resolve(wanted, {"h1": facts("h1")}, {}, secrets, cache=None, waiting=waiting, waiting_s=0.05)
    assert told[-1] == ["model a/b"]


def test_unreachable_and_unknown_hosts_take_part_in_nothing(secrets: Secrets, plain: RunningRegistry) -> None:
    digest = plain.push("copies/some", "1")
    rule = ImageMirror(match="registry.invalid/", places=(f"http://{plain.address}/copies/",))
    wanted = deployment(
        placement(), placement(host="h2"), image="registry.invalid/some:1", mirrors=Mirrors(images=(rule,))
    )
    unknown = facts("h2", arch=Unknown(unknown="uname failed"))  # type: ignore[arg-type]
    found = resolve(wanted, {"h2": unknown}, {}, secrets, cache=None)
    assert found.images["llama"].digest == digest


def test_a_host_of_another_platform_is_named(secrets: Secrets, plain: RunningRegistry) -> None:
    plain.push("copies/platform", "1")
    rule = ImageMirror(match="registry.invalid/", places=(f"http://{plain.address}/copies/",))
    wanted = deployment(placement(), image="registry.invalid/platform:1", mirrors=Mirrors(images=(rule,)))
    with pytest.raises(HostError) as error:
        resolve(wanted, {"h1": facts(arch="arm64")}, {}, secrets, cache=None)
    assert error.value.where == "h1"


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
    found = resolve(wanted, {"h1": facts(releases={"rag": releases})}, {}, secrets, cache=None)
    assert (found.images["llama"].digest, found.images["llama"].authority) == (released, "release")


def test_what_all_hosts_hold_needs_no_registry_and_what_one_lacks_does(secrets: Secrets) -> None:
    reference = f"127.0.0.1:{free_port()}/held:1@{OTHER}"
    wanted = deployment(placement(), placement(host="h2"), image=reference)
    image = Image(id="i", references=(), size=1, platform="linux/amd64")
    having, lacking = facts("h1", images={f"m.corp/held@{OTHER}": image}), facts("h2")
    also = facts("h2", images={f"elsewhere/held@{OTHER}": image})
    assert (
        resolve(wanted, {"h1": having, "h2": also}, {}, secrets, cache=None).images["llama"].digest == OTHER
    )
    with pytest.raises(RegistryError):
        resolve(wanted, {"h1": having, "h2": lacking}, {}, secrets, cache=None)
    with pytest.raises(RegistryError):
        resolve(wanted, {"h1": having}, {}, secrets, cache=None)


def test_several_failures_are_told_at_once(secrets: Secrets) -> None:
    dead = f"127.0.0.1:{free_port()}"
    source = HuggingFace(repo="not a name")
    wanted = deployment(placement(source=source), image=f"{dead}/x:1")
    with pytest.raises(RegistryError) as error:
        resolve(wanted, {"h1": facts()}, {}, secrets, cache=None)
    assert "connection refused" in error.value.what
    assert "also huggingface not a name@main: not a repository name" in error.value.what
    assert "add a mirror" in error.value.what
    assert "owner/name" in error.value.do
    assert str(error.value).startswith(f"image {dead}/x:1: no place has it")


def test_a_registrys_password_that_is_missing_is_found_before_anything_is_pulled(secrets: Secrets) -> None:
    place = f"127.0.0.1:{free_port()}"
    password = SecretRef(kind="from_env", name="NO_SUCH_VARIABLE")
    wanted = deployment(
        placement(),
        image=f"{place}/x@{OTHER}",
        registries=(Registry(scope=place, username=USER, password=password),),
    )
    image = Image(id="i", references=(), size=1, platform="linux/amd64")
    with pytest.raises(SecretError, match="NO_SUCH_VARIABLE"):
        resolve(wanted, {"h1": facts(images={OTHER: image})}, {}, secrets, cache=None)


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
        return resolve(wanted(source), {"h1": host}, {}, secrets, cache=tmp_path / "cache").weights["chat@h1"]

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
        with pytest.raises(HubError, match="no Hub has it"):
            found(source, host)
