"""Where a model answers: one address that stays the same, and a port nobody else has."""

from __future__ import annotations

import msgspec
import pytest

from cpudeploy.errors import HostError
from cpudeploy.steps.addresses import listen_address, refuse_taken_ports
from cpudeploy.types.base import Unknown
from cpudeploy.types.deployment import Host, Ssh
from cpudeploy.types.facts import Facts, Listening, Mark, Network, Publish
from tests.factories import container, facts, network, placement

from .wishes import context_of, instances_of

REACHED_BY_NAME = Host(name="one", ssh=Ssh(address="one"))


def on(listen: str, *addresses: str, host: Host = REACHED_BY_NAME, **changes) -> str:
    return listen_address(placement(listen=listen), host, facts(addresses=addresses, **changes))


def bridge(name: str, subnet: str, driver: str = "bridge") -> dict[str, Network]:
    found = Network(id=name, driver=driver, internal=False, subnets=(subnet,), deployment="")
    return {name: found}


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.9", "::1", "0.0.0.0", "::", "10.1.2.3"])
def test_an_address_is_taken_as_written(listen):
    assert on(listen, "10.1.2.3") == listen


def test_one_address_has_one_spelling():
    assert on("0:0:0:0:0:0:0:1", "10.1.2.3") == "::1"


def test_host_is_the_address_ssh_connects_to():
    host = Host(name="one", ssh=Ssh(address="10.1.2.3"))
    assert on("host", "10.1.2.3", "10.9.9.9", "192.168.0.1", host=host) == "10.1.2.3"


@pytest.mark.parametrize("reached", ["one", "127.0.0.1", "203.0.113.7"], ids=["name", "tunnel", "nat"])
def test_reached_by_another_name_host_is_its_only_address(reached):
    host = Host(name="one", ssh=Ssh(address=reached))
    assert on("host", "10.1.2.3", host=host) == "10.1.2.3"


@pytest.mark.parametrize("listen", ["host", "10.0.0.0/8"])
def test_our_own_bridge_is_never_meant(listen):
    """It is there at the second plan only, with the lowest address of all."""
    ours = bridge("rag_pub", "10.1.0.0/26") | bridge("bridge", "172.17.0.0/16")
    assert on(listen, "10.1.2.3") == "10.1.2.3"
    assert on(listen, "10.1.0.1", "10.1.2.3", "172.17.0.1", networks=ours) == "10.1.2.3"


def test_a_network_of_the_lan_itself_hides_no_address():
    assert on("host", "10.1.2.3", networks=bridge("lan", "10.1.2.0/24", "macvlan")) == "10.1.2.3"


def test_several_addresses_are_told_and_not_chosen_from():
    with pytest.raises(HostError, match=r"several .* \(10\.1\.2\.3, 10\.9\.9\.9\)") as caught:
        on("host", "10.1.2.3", "10.9.9.9")
    assert caught.value.where == "one smol"
    assert caught.value.do


def test_in_a_network_the_address_ssh_connects_to_is_meant():
    host = Host(name="one", ssh=Ssh(address="10.9.9.9"))
    assert on("10.0.0.0/8", "10.1.2.3", "10.9.9.9", host=host) == "10.9.9.9"
    assert on("10.1.0.0/16", "10.1.2.3", "10.9.9.9", host=host) == "10.1.2.3"


def test_ipv6_addresses_that_come_and_go_make_host_no_less_clear():
    assert on("host", "10.1.2.3", "2001:db8::1", "2001:db8::2") == "10.1.2.3"
    assert on("host", "2001:db8::1") == "2001:db8::1"


@pytest.mark.parametrize("listen", ["10.20.0.0/16", "10.20.0.1"])
def test_what_the_host_does_not_have_is_refused_with_what_it_has(listen):
    with pytest.raises(HostError, match=r"none of the host's addresses \(10\.1\.2\.3\)"):
        on(listen, "10.1.2.3")


INTERFACES = {
    "lo": ("127.0.0.1", "::1"),
    "eth0": ("10.1.2.3", "fe80::1", "2001:db8::1"),
    "eth1": ("10.9.9.9", "10.9.9.10"),
    "eth2": (),
}


@pytest.mark.parametrize(
    ("interface", "reached", "address"),
    [("eth0", "one", "10.1.2.3"), ("eth1", "10.9.9.10", "10.9.9.10"), ("eth0", "2001:db8::1", "2001:db8::1")],
)
def test_an_interface_stands_for_its_address(interface, reached, address):
    host = Host(name="one", ssh=Ssh(address=reached))
    found = on(interface, "10.1.2.3", "10.9.9.9", "10.9.9.10", host=host, interfaces=INTERFACES)
    assert found == address


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        (
            "eth7",
            r"eth7 is no interface of the host \(lo 127\.0\.0\.1 ::1, eth0 10\.1\.2\.3 .*, eth1 .*, eth2\)",
        ),
        ("eth1", r"eth1 stands for several of the host's addresses \(10\.9\.9\.9, 10\.9\.9\.10\)"),
        ("eth2", r"interface eth2 has no address of its own"),
    ],
)
def test_an_interface_that_stands_for_no_address_or_several_is_told(interface, words):
    with pytest.raises(HostError, match=words) as caught:
        on(interface, "10.1.2.3", interfaces=INTERFACES)
    assert caught.value.where == "one smol"
    assert caught.value.do


def test_an_interface_is_no_use_where_the_host_tells_none():
    with pytest.raises(HostError, match=r"eth0 is no interface of the host \(none known\)"):
        on("eth0", "10.1.2.3")


def test_an_address_is_believed_where_the_host_tells_none():
    assert on("10.20.0.1") == "10.20.0.1"


def listening(*places: tuple[str, int], **changes) -> Facts:
    return facts(ports=tuple(Listening(address=address, port=port) for address, port in places), **changes)


def refusal(found: Facts, *placements) -> str:
    """What is said against these placements; empty when nothing is."""
    context = context_of(*placements, found=found)
    try:
        refuse_taken_ports(context, instances_of(context))
    except HostError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("listen", "foreign"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
        ("127.0.0.1", "::"),
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("0.0.0.0", "10.1.2.3"),
        ("host", "10.1.2.3"),
        ("10.1.0.0/16", "10.1.2.3"),
    ],
)
def test_a_port_held_by_somebody_else_is_refused(listen, foreign):
    said = refusal(listening((foreign, 8100)), placement(listen=listen))
    assert f"one smol: port 8100 is taken on {foreign} by something that is not ours" in said


@pytest.mark.parametrize(
    ("listen", "foreign"),
    [
        ("127.0.0.1", ("10.1.2.3", 8100)),
        ("host", ("127.0.0.1", 8100)),
        ("::1", ("0.0.0.0", 8100)),
        ("0.0.0.0", ("0.0.0.0", 8101)),
    ],
)
def test_a_port_of_another_address_is_no_obstacle(listen, foreign):
    assert refusal(listening(foreign), placement(listen=listen)) == ""


def test_ports_of_our_own_containers_are_no_obstacle():
    everywhere = (Publish(address="0.0.0.0", port=8100, container_port=8080),)
    found = listening(("0.0.0.0", 8100), containers={"rag_smol_0": container(publish=everywhere)})
    assert refusal(found, placement()) == ""
    assert refusal(found, placement("other")) == ""


def test_a_stopped_container_of_ours_holds_nothing():
    found = listening(("127.0.0.1", 8100), containers={"rag_smol_0": container(running=False)})
    assert "not ours" in refusal(found, placement())


def test_our_container_does_not_cover_for_others_on_its_port():
    found = listening(("10.1.2.3", 8100), containers={"rag_smol_0": container()})
    assert "10.1.2.3" in refusal(found, placement(listen="host"))


@pytest.mark.parametrize(
    ("mark", "whose"),
    [
        (None, "something that is not ours"),
        (Mark(schema=1, deployment="other", model="m", instance=0, release="1"), "of deployment other"),
    ],
)
def test_a_container_of_others_is_named_even_where_nothing_listens_for_it(mark, whose):
    found = listening(containers={"web": container(mark=mark)})
    assert f"port 8100 is taken on 127.0.0.1 by container web, {whose}" in refusal(found, placement())


@pytest.mark.parametrize(
    ("one", "other"),
    [("host", "10.1.2.3"), ("10.1.0.0/16", "host"), ("127.0.0.1", "0.0.0.0"), ("::1", "::1")],
)
def test_two_models_are_refused_on_one_address_however_it_was_written(one, other):
    said = refusal(facts(), placement(listen=one), placement("second", listen=other))
    assert "one second: port 8100 is taken on" in said
    assert "by model smol" in said


def test_two_models_may_share_a_port_of_different_addresses():
    assert refusal(facts(), placement(), placement("second", listen="host")) == ""


def test_ports_that_could_not_be_read_refuse_nothing():
    unread = msgspec.structs.replace(facts(), ports=Unknown(unknown="no /proc/net/tcp"))
    assert refusal(unread, placement()) == ""


def test_a_network_of_ours_changes_no_address_of_a_running_model():
    before = context_of(placement(listen="host"), found=facts(addresses=("10.1.2.3",)))
    after = context_of(
        placement(listen="host"),
        found=facts(addresses=("10.1.2.3", "10.213.0.1"), networks={"rag_pub": network("rag_pub")}),
    )
    assert instances_of(before) == instances_of(after)
