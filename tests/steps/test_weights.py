"""Which way a model's files come to a host, and what the plan says about it."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.steps.weights import brought_by, weights_changes
from cpudeploy.types.deployment import Upload
from cpudeploy.types.operation import Fetch
from tests.factories import facts, placement
from tests.steps.wishes import context_of

KB = 1000


@pytest.mark.parametrize(
    ("fetch", "curl", "via", "told"),
    [
        ("auto", True, "auto", ""),
        ("auto", False, "controller", "through this machine (no curl on the host)"),
        ("controller", True, "controller", "through this machine (fetch: controller)"),
        ("host", True, "host", ""),
        ("host", False, "host", ""),
    ],
)
def test_the_way_is_decided_by_the_wish_and_by_what_the_host_has(
    fetch: str, curl: bool, via: str, told: str
) -> None:
    wanted = placement(fetch=fetch)
    context = context_of(wanted, found=facts(tools={"apt-get": True, "curl": curl}))
    (change,) = weights_changes(context, wanted, context.resolved.weights["smol@one"])
    assert {operation.via for operation in change.operations if isinstance(operation, Fetch)} == {via}
    assert told in change.summary
    assert ("this machine" in change.summary) is bool(told)


@pytest.mark.parametrize("fetch", ["auto", "host", "controller"])
def test_a_file_of_this_machine_comes_from_it_whatever_was_wished(fetch: str) -> None:
    wanted = placement(source=Upload(path="m.gguf"), fetch=fetch)
    context = context_of(wanted, found=facts(tools={"curl": False}))
    (change,) = weights_changes(context, wanted, context.resolved.weights["smol@one"])
    assert {each.via for each in change.operations if isinstance(each, Fetch)} == {"controller"}
    assert "98 MB to fetch from this machine · sha256:" in change.summary


def test_what_two_models_have_in_common_is_counted_once() -> None:
    one, other = placement("one"), placement("other", port=8101)
    context = context_of(one, other)
    weights = context.resolved.weights["one@one"]
    (file,) = weights.files
    more = msgspec.structs.replace(file, name="more.gguf", size=7 * KB, sha256="b" * 64)  # type: ignore[arg-type]
    wider = msgspec.structs.replace(weights, tree="org-wider", files=(file, more))
    changes = weights_changes(context, one, weights)
    (second,) = weights_changes(context, other, wider, brought_by(changes))
    assert "7.0 kB to fetch · 98 MB come with another model" in second.summary
    (needed,) = second.before.at_least.values()
    assert needed == 7 * KB
