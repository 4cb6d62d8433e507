"""Which way a model's files come to a host, and what the plan says about it."""

from __future__ import annotations

import pytest

from cpudeploy.steps.weights import weights_changes
from cpudeploy.types.operation import Fetch
from tests.factories import facts, placement
from tests.steps.wishes import context_of


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
