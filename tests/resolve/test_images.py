"""Whose word counts for an image, and which places hosts get. Real registries; `mirror` is the plain one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cpudeploy.errors import RegistryError
from cpudeploy.resolve.access import Access
from cpudeploy.resolve.images import Known, resolve_image
from cpudeploy.types.deployment import ImageMirror
from cpudeploy.types.resolved import ResolvedImage

from .registries import RunningRegistry, free_port
from .web_server import Reply, serve

Resolve = Callable[..., ResolvedImage]
OTHER = "sha256:" + "9" * 64


@pytest.fixture
def resolve(access: Access) -> Resolve:
    def ask(text: str, *mirrors: ImageMirror, **known: Any) -> ResolvedImage:
        return resolve_image(
            text, mirrors=mirrors, access=access, known=Known(**{"arches": {"h1": "amd64"}, **known})
        )

    return ask


@pytest.fixture
def gone() -> str:
    """An address where nothing listens: an origin that is blocked."""
    return f"127.0.0.1:{free_port()}"


def to_mirror(match: str, *mirrors: RunningRegistry, **fields: Any) -> ImageMirror:
    return ImageMirror(
        match=match, places=tuple(f"http://{each.address}/copies/" for each in mirrors), **fields
    )


def references(image: ResolvedImage) -> list[str]:
    return [place.reference for place in image.places]


def test_the_origins_digest_counts_and_mirrors_come_first(
    resolve: Resolve, origin: RunningRegistry, plain: RunningRegistry
) -> None:
    digest = origin.push("a/one", "1", index=False)
    origin.copy("a/one", "1", plain, "copies/a/one")
    image = resolve(f"{origin.address}/a/one:1", to_mirror(f"{origin.address}/", plain))
    assert (image.digest, image.authority, image.platforms, image.size) == (
        digest,
        "origin",
        ("linux/amd64",),
        2000,
    )
    assert references(image) == [f"{plain.address}/copies/a/one@{digest}", f"{origin.address}/a/one@{digest}"]
    mirror, last = image.places
    assert (mirror.insecure, mirror.registry, mirror.digest) == (True, plain.address, digest)
    assert not last.insecure
    assert image.reference == f"{origin.address}/a/one:1"
    assert image.notes == ()


def test_a_private_place_names_its_login(resolve: Resolve, private: RunningRegistry) -> None:
    private.push("llm/login", "1")
    [place] = resolve(f"{private.address}/llm/login:1").places
    assert place.login == private.address


def test_a_mirrors_own_push_is_skipped_with_a_note(
    resolve: Resolve, origin: RunningRegistry, plain: RunningRegistry
) -> None:
    digest = origin.push("a/two", "1")
    vendors = plain.push("copies/a/two", "1", ["linux/amd64", "linux/arm64"])
    image = resolve(f"{origin.address}/a/two:1", to_mirror(f"{origin.address}/", plain))
    assert references(image) == [f"{origin.address}/a/two@{digest}"]
    assert any(vendors in note and "skipped" in note for note in image.notes)


def test_a_mirrors_own_push_is_used_where_the_manifest_allows_its_digest(
    resolve: Resolve, origin: RunningRegistry, plain: RunningRegistry
) -> None:
    digest = origin.push("a/three", "1")
    vendors = plain.push("copies/a/three", "1", ["linux/amd64", "linux/arm64"])
    rule = to_mirror(f"{origin.address}/", plain, digests={"1": vendors})
    image = resolve(f"{origin.address}/a/three:1", rule)
    assert (image.digest, image.authority) == (digest, "origin")
    assert [place.digest for place in image.places] == [vendors, digest]


def test_with_the_origin_blocked_an_allowed_digest_is_the_manifests_word(
    resolve: Resolve, plain: RunningRegistry, gone: str
) -> None:
    vendors = plain.push("copies/a/four", "1")
    image = resolve(f"{gone}/a/four:1", to_mirror(f"{gone}/", plain, digests={"1": vendors}))
    assert (image.digest, image.authority) == (vendors, "manifest")
    assert image.places[0].digest == vendors


def test_a_tag_that_moved_at_a_mirror_is_pulled_there_by_the_trusted_digest(
    resolve: Resolve, origin: RunningRegistry, plain: RunningRegistry
) -> None:
    digest = origin.push("a/five", "1", index=False)
    origin.copy("a/five", "1", plain, "copies/a/five")
    plain.push("copies/a/five", "1", ["linux/amd64", "linux/arm64"])
    image = resolve(f"{origin.address}/a/five:1", to_mirror(f"{origin.address}/", plain))
    assert references(image) == [
        f"{plain.address}/copies/a/five@{digest}",
        f"{origin.address}/a/five@{digest}",
    ]


def test_a_digest_in_the_manifest_needs_nobodys_word(
    resolve: Resolve, plain: RunningRegistry, gone: str
) -> None:
    digest = plain.push("copies/a/six", "1")
    plain.push("copies/a/six", "1", ["linux/amd64", "linux/arm64"])
    image = resolve(f"{gone}/a/six:1@{digest}", to_mirror(f"{gone}/", plain), released=OTHER)
    assert (image.digest, image.authority) == (digest, "manifest")
    assert references(image)[0] == f"{plain.address}/copies/a/six@{digest}"


def test_with_the_origin_blocked_the_last_release_counts_before_a_mirrors_tag(
    resolve: Resolve, plain: RunningRegistry, gone: str
) -> None:
    released = plain.push("copies/a/seven", "1")
    plain.push("copies/a/seven", "1", ["linux/amd64", "linux/arm64"])
    image = resolve(f"{gone}/a/seven:1", to_mirror(f"{gone}/", plain), released=released)
    assert (image.digest, image.authority) == (released, "release")


def test_the_first_mirror_that_answers_is_believed_last_and_marked_unverified(
    resolve: Resolve, plain: RunningRegistry, gone: str
) -> None:
    digest = plain.push("copies/a/eight", "1")
    dead = f"127.0.0.1:{free_port()}"
    rule = ImageMirror(match=f"{gone}/", places=(f"http://{dead}/x/", f"http://{plain.address}/copies/"))
    image = resolve(f"{gone}/a/eight:1", rule)
    assert (image.digest, image.authority) == (digest, "mirror")
    assert any("unverified" in note for note in image.notes)
    # Those that did not answer here may answer the hosts: they are tried last, by the same digest.
    assert references(image) == [
        f"{plain.address}/copies/a/eight@{digest}",
        f"{dead}/x/a/eight@{digest}",
        f"{gone}/a/eight@{digest}",
    ]


def test_an_origin_whose_name_does_not_resolve_is_a_note(resolve: Resolve, plain: RunningRegistry) -> None:
    plain.push("copies/a/nine", "1")
    image = resolve("registry.invalid/a/nine:1", to_mirror("registry.invalid/", plain))
    assert any("registry.invalid/a/nine" in note and "does not resolve" in note for note in image.notes)


def test_when_no_place_has_it_every_place_is_named_with_its_reason(
    resolve: Resolve, plain: RunningRegistry, private: RunningRegistry, gone: str
) -> None:
    rule = ImageMirror(match=f"{gone}/", places=(f"http://{plain.address}/copies/", "registry.invalid/"))
    with pytest.raises(RegistryError) as error:
        resolve(f"{gone}/a/nowhere:1", rule)
    assert f"{plain.address}/copies/a/nowhere:1: not found" in error.value.what
    assert "registry.invalid/a/nowhere:1: the name does not resolve" in error.value.what
    assert f"{gone}/a/nowhere:1: connection refused" in error.value.what
    assert error.value.where == f"image {gone}/a/nowhere:1"
    assert error.value.do


def test_mirrors_that_only_have_something_else_are_no_place(
    resolve: Resolve, plain: RunningRegistry, gone: str
) -> None:
    plain.push("copies/a/ten", "1")
    with pytest.raises(RegistryError, match=f"not the release's {OTHER}") as error:
        resolve(f"{gone}/a/ten:1", to_mirror(f"{gone}/", plain), released=OTHER)
    assert "pin the digest" in error.value.do


def test_no_place_is_needed_for_what_every_host_holds(resolve: Resolve, gone: str) -> None:
    image = resolve(f"{gone}/a/held:1", released=OTHER, held=frozenset({OTHER}))
    assert (image.digest, image.authority, image.size) == (OTHER, "release", 0)
    assert any("every host holds" in note for note in image.notes)


@pytest.mark.parametrize("index", [True, False])
def test_an_image_not_built_for_a_host_says_what_it_is_built_for(
    resolve: Resolve, origin: RunningRegistry, index: bool
) -> None:
    """Hosts it is built for get it, whatever others there are."""
    origin.push("a/arm", str(index), ["linux/arm64"], index=index)
    image = resolve(f"{origin.address}/a/arm:{index}", arches={"x86": "amd64", "kunpeng": "arm64"})
    assert image.platforms == ("linux/arm64",)
    assert image.size == 2000
    assert resolve(f"{origin.address}/a/arm:{index}", arches={"x86": "amd64"}).platforms == ("linux/arm64",)


def test_a_mixed_fleet_is_told_the_largest_download(resolve: Resolve, origin: RunningRegistry) -> None:
    origin.push("a/mixed", "1", ["linux/amd64", "linux/arm64/v8"])
    image = resolve(f"{origin.address}/a/mixed:1", arches={"a": "amd64", "b": "arm64", "c": None})
    assert image.size == 4000
    assert image.platforms == ("linux/amd64", "linux/arm64/v8")


def test_a_mirror_that_lies_about_its_content_is_skipped(resolve: Resolve, origin: RunningRegistry) -> None:
    digest = origin.push("a/true", "1")
    lie = Reply(200, b'{"schemaVersion":2}', {"Docker-Content-Digest": digest})
    with serve(lambda _: lie) as liar:
        rule = ImageMirror(match=f"{origin.address}/", places=(f"http://{liar.address}/",))
        image = resolve(f"{origin.address}/a/true:1@{digest}", rule)
    assert references(image) == [f"{origin.address}/a/true@{digest}"]
