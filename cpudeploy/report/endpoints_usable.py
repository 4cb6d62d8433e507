"""What a program can use of the endpoints, by where it runs. An EndpointsDocument in, lists and words out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..types.endpoint import EndpointKey, EndpointsDocument, ModelEndpoint


@dataclass(frozen=True)
class Usable:
    """The endpoints a program can use, and why it can't use the others: one sentence each."""

    deployment: str
    endpoints: tuple[ModelEndpoint, ...]
    left_out: tuple[str, ...]

    @property
    def models(self) -> dict[str, list[ModelEndpoint]]:
        """Model → its endpoints, both in the manifest's order."""
        found: dict[str, list[ModelEndpoint]] = {}
        for each in self.endpoints:
            found.setdefault(each.model, []).append(each)
        return found

    @property
    def keys(self) -> dict[str, EndpointKey]:
        """Variable → where its value comes from."""
        return {each.key.variable: each.key for each in self.endpoints if each.key is not None}


def usable(document: EndpointsDocument, on: Collection[str]) -> Usable:
    """For a program on the hosts `on` (none: on a machine that is none of them)."""
    return Usable(
        deployment=document.deployment,
        endpoints=tuple(each for each in document.endpoints if not _why_not(each, on)),
        left_out=tuple(
            f"{each.model} on {each.host}: {why}"
            for each in document.endpoints
            if (why := _why_not(each, on))
        ),
    )


def _why_not(each: ModelEndpoint, on: Collection[str]) -> str:
    if each.problem:
        return each.problem
    if each.reach == "host" and each.host not in on:
        return (
            f"it listens on the loopback of {each.host} only; do: --on {each.host} for programs there, "
            + (f"or bring it here: {each.tunnel}" if each.tunnel else "or set `listen`")
        )
    return ""


def key_words(key: EndpointKey) -> str:
    """Where a key comes from, for people: `from_file secrets/key`."""
    return f"{key.kind} {key.name}" + (" …" if key.kind == "from_command" else "")


def head_lines(usable: Usable, what: str) -> Iterator[str]:
    """What stands above a generated file, without a sign of comment."""
    yield f"{what} of deployment {usable.deployment}, by `cpudeploy endpoints`: made anew, not edited"
    for why in usable.left_out:
        yield f"left out: {why}"
