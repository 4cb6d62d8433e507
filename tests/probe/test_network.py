"""Which interface an address is of, from tables that don't say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trees import Tree

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def local(*addresses: str) -> str:
    return "Local:\n" + "".join(f"     |-- {address}\n        /32 host LOCAL\n" for address in addresses)


def route(interface: str, network: str, mask: str, gateway: str = "00000000") -> str:
    return f"{interface}\t{network}\t{gateway}\t0001\t0\t0\t0\t{mask}\t0\t0\t0\n"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.cpus([((0,), 0, 0)])
    tree.memory(1 << 20)
    return tree


def test_an_address_belongs_to_the_interface_of_its_nearest_network(tree: Tree) -> None:
    tree.write("proc/net/fib_trie", local("127.0.0.1", "10.20.1.11", "10.20.7.1"))
    tree.write(
        "proc/net/route",
        HEAD
        + route("eth0", "00000000", "00000000", gateway="0101140A")
        + route("eth0", "0000140A", "0000FFFF")
        + route("eth1", "0007140A", "00FFFFFF"),
    )
    tree.write(
        "proc/net/if_inet6",
        "20010db8000000000000000000000001 02 40 00 80     eth0\n"
        "fe80000000000000021122fffe334455 02 40 20 80     eth0\n"
        "00000000000000000000000000000001 01 80 10 80       lo\n",
    )
    facts = tree.facts()
    assert facts.interfaces == {"eth0": ("10.20.1.11", "2001:db8::1"), "eth1": ("10.20.7.1",)}
    assert facts.addresses == ("10.20.1.11", "10.20.7.1", "2001:db8::1")


def test_an_address_that_two_interfaces_may_have_is_of_none(tree: Tree) -> None:
    tree.write("proc/net/fib_trie", local("10.20.1.11"))
    tree.write(
        "proc/net/route",
        HEAD + route("eth0", "0001140A", "00FFFFFF") + route("eth1", "0001140A", "00FFFFFF"),
    )
    facts = tree.facts()
    assert facts.interfaces == {}
    assert facts.addresses == ("10.20.1.11",)


def test_an_address_that_stands_alone_is_of_the_interface_that_ip_tells(tree: Tree) -> None:
    """As some clouds give it: the only route on the link is to the gateway."""
    tree.write("proc/net/fib_trie", local("127.0.0.1", "203.0.113.7", "10.20.1.11"))
    tree.write(
        "proc/net/route",
        HEAD
        + route("eth0", "00000000", "00000000", gateway="01011FAC")
        + route("eth0", "01011FAC", "FFFFFFFF")
        + route("eth1", "0001140A", "00FFFFFF"),
    )
    facts = tree.facts()
    assert facts.interfaces == {"eth1": ("10.20.1.11",)}
    tree.write(
        "ip-addresses",
        "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever\n"
        "2: eth0    inet 203.0.113.7/32 metric 100 scope global dynamic eth0\\       valid_lft 80862sec\n",
    )
    assert tree.facts().interfaces == {"eth0": ("203.0.113.7",), "eth1": ("10.20.1.11",)}


def test_big_endian_machines_print_theirs_the_other_way_round(tree: Tree) -> None:
    tree.write("machine", "s390x")
    tree.write("proc/net/fib_trie", local("10.20.1.11"))
    tree.write("proc/net/route", HEAD + route("enc1", "0A140100", "FFFFFF00"))
    assert tree.facts().interfaces == {"enc1": ("10.20.1.11",)}
