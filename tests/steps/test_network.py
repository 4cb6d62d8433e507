"""The two networks of a deployment on a host: where their addresses come from, and when there are none."""

from __future__ import annotations

import ipaddress

import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.context import HostContext
from cpudeploy.steps.network import network_changes
from cpudeploy.types.facts import Facts, Network
from cpudeploy.types.operation import CreateNetwork, Engine
from cpudeploy.types.resolved import Resolved
from tests.factories import deployment, facts, network


def subnets(found: Facts, pool: str | None = None) -> dict[str, str]:
    """Network → its subnet, of those that would be created."""
    wanted = deployment(network_pool=pool)
    context = HostContext(deployment=wanted, host=wanted.hosts["one"], facts=found, resolved=Resolved())
    requests = [
        operation.request
        for change in network_changes(context)
        for operation in change.operations
        if isinstance(operation, Engine)
    ]
    return {request.network: request.subnet for request in requests if isinstance(request, CreateNetwork)}


def other(name: str, *subnets: str) -> dict[str, Network]:
    return {name: Network(id=name, driver="bridge", internal=False, subnets=subnets, deployment="")}


def test_the_first_two_of_the_pool_are_taken():
    assert subnets(facts()) == {"rag_pub": "10.213.0.0/26", "rag_int": "10.213.0.64/26"}
    assert subnets(facts(), "192.168.7.0/25") == {"rag_pub": "192.168.7.0/26", "rag_int": "192.168.7.64/26"}


def test_routes_and_other_networks_are_stepped_over():
    found = facts(
        routes=("0.0.0.0/0", "10.1.0.32/27", "10.1.0.128/25", "fd00::/8"), networks=other("x", "10.1.1.0/30")
    )
    assert subnets(found, "10.1.0.0/16") == {"rag_pub": "10.1.0.64/26", "rag_int": "10.1.1.64/26"}


def test_a_pool_as_large_as_can_be_is_no_work():
    found = facts(routes=("10.0.0.0/9", "10.128.0.0/10"))
    assert subnets(found, "10.0.0.0/8") == {"rag_pub": "10.192.0.0/26", "rag_int": "10.192.0.64/26"}


@pytest.mark.parametrize(
    ("routes", "left"),
    [
        (("10.1.0.0/16",), 0),
        (("10.0.0.0/8",), 0),
        (("10.1.0.0/25", "10.1.0.128/26"), 1),
        (("10.1.0.1/32", "10.1.0.64/26", "10.1.0.191/32"), 1),
    ],
)
def test_a_pool_without_room_names_what_is_in_the_way(routes, left):
    with pytest.raises(HostError) as caught:
        subnets(facts(routes=routes), "10.1.0.0/24")
    assert caught.value.what.startswith(f"{left} of 2 networks of /26 are left in the pool 10.1.0.0/24")
    assert all(str(ipaddress.ip_network(route)) in caught.value.what for route in routes)
    assert "networks: {pool: " in caught.value.do


def test_one_that_is_there_keeps_its_addresses_whatever_the_pool():
    found = facts(networks={"rag_pub": network("rag_pub")})
    assert list(subnets(found, "10.99.0.0/24")) == ["rag_int"]


def test_a_foreign_network_of_our_name_is_refused():
    with pytest.raises(HostError, match="a network named rag_int is there already and is not ours"):
        subnets(facts(networks=other("rag_int", "10.5.0.0/24")))
