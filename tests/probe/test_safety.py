"""What keeps a host whole, read by the real script from state folders as keepers and guards leave them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpudeploy.types.base import Unknown
from cpudeploy.types.safety import Guard, Hold, InFlight, Lease
from tests.probe.trees import Tree

STATE = "var/lib/cpudeploy"
ABOUT = '{"holder":"ops@laptop (pid 7)","command":"apply","deployment":"rag","plan":"p1"}'


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A host that is up for 1000 s, in its run `boot.77`."""
    tree = Tree(tmp_path)
    tree.write("proc/uptime", "1000.55 1900.00")
    tree.write("proc/sys/kernel/random/boot_id", "boot")
    fields = " ".join(str(number) for number in range(4, 22))
    tree.write("proc/1/stat", f"1 (my init) x) S {fields} 77 0 0")
    return tree


def hold_lease(tree: Tree, times: str, about: str = ABOUT) -> None:
    tree.write(f"{STATE}/lease/t0/times", times)
    tree.write(f"{STATE}/lease/t0/about", about)


def test_nothing_is_what_a_host_without_state_tells(tree: Tree) -> None:
    facts = tree.facts()
    assert (facts.lease, facts.in_flight, facts.guards, facts.held, facts.used_plans) == (
        None,
        None,
        {},
        {},
        {},
    )


@pytest.mark.parametrize(
    ("times", "since", "silent", "expired"),
    [
        ("900 990 60 boot.77", 100, 10, False),
        ("900 940 60 boot.77", 100, 60, False),
        ("900 939 60 boot.77", 100, 61, True),
        ("900 990 60 boot.76", 0, 0, True),
        ("900 990 60 other.77", 0, 0, True),
        ("", 0, 0, True),
        ("rubbish", 0, 0, True),
    ],
    ids=["fresh", "last second", "silent", "before a restart", "before a boot", "power cut", "damaged"],
)
def test_a_lease_ages_by_uptime_within_one_run(
    tree: Tree, times: str, since: int, silent: int, expired: bool
) -> None:
    hold_lease(tree, times)
    assert tree.facts().lease == Lease(
        holder="ops@laptop (pid 7)",
        command="apply",
        deployment="rag",
        plan="p1",
        since_s=since,
        silent_s=silent,
        expired=expired,
    )


@pytest.mark.parametrize("about", ["{broken", "[]", '{"holder": 3}', "[" * 100_000])
def test_whose_lease_cannot_be_read_is_somebodys(tree: Tree, about: str) -> None:
    hold_lease(tree, "900 990 60 boot.77", about)
    lease = tree.facts().lease
    assert lease is not None
    assert (lease.holder, lease.expired) == ("somebody", False)


def test_what_is_in_flight(tree: Tree) -> None:
    text = '{"kind":"in_flight","deployment":"rag","plan":"p1","change":"c1","subject":"qwen","holder":"ops"}'
    tree.write(f"{STATE}/inflight.json", text)
    assert tree.facts().in_flight == InFlight(
        deployment="rag", plan="p1", change="c1", subject="qwen", holder="ops"
    )


@pytest.mark.parametrize("text", ["", "{broken", "[]", "{}", "[" * 100_000])
def test_a_damaged_journal_is_unknown_and_not_none(tree: Tree, text: str) -> None:
    tree.write(f"{STATE}/inflight.json", text)
    assert isinstance(tree.facts().in_flight, Unknown)


def test_guards_in_every_state(tree: Tree) -> None:
    about = '{"deployment":"rag","plan":"p1","change":"c1"}'
    files = {
        "waits": {"armed.g": "", "terms": "t0 30 60 boot.77", "renewed": "990"},
        "late": {"armed.g": "", "terms": "t0 30 60 boot.77", "renewed": "900"},
        "before": {"armed.g": "", "terms": "t0 30 60 boot.76", "renewed": "990"},
        "fires": {"fired": "", "terms": "t0 30 60 boot.77", "renewed": "900"},
        "cut": {"fired": "", "terms": "t0 30 60 boot.76", "renewed": "900"},
        "ended": {"fired": "", "terms": "t0 30 60 boot.77", "renewed": "900", "rc": "9" * 5000},
        "ran": {"fired": "", "terms": "t0 30 60 boot.76", "renewed": "900", "rc": "3", "log": "a\nb\n"},
    }
    for name, found in files.items():
        for file, text in {**found, "about": about}.items():
            tree.write(f"{STATE}/guard/{name}/{file}", text)
    tree.write(f"{STATE}/guard/damaged/log", "x")

    def guard(state: str, **more: object) -> Guard:
        return Guard(state=state, deployment="rag", plan="p1", change="c1", **more)  # type: ignore[arg-type]

    assert tree.facts().guards == {
        "waits": guard("armed", left_s=20),
        "late": guard("armed", left_s=0),
        "before": guard("lost"),
        "fires": guard("armed", left_s=0),
        "cut": guard("lost"),
        "ended": guard("fired"),
        "ran": guard("fired", rc=3, log="a\nb"),
        "damaged": Guard(state="lost", deployment="", plan="", change=""),
    }


def test_holds_and_used_plans_by_deployment(tree: Tree) -> None:
    tree.write(
        f"{STATE}/rag/held/rag_qwen_0.json",
        '{"wanted":"w","release":"0002-a","at":"2026-11-30T00:00:00Z","what":"never got ready"}',
    )
    tree.write(f"{STATE}/rag/held/rag_other_0.json", "{broken")
    tree.write(f"{STATE}/rag/plans/p1", "{}")
    tree.write(f"{STATE}/rag/plans/p2", "")
    tree.write(f"{STATE}/other/plans/p1", "{}")
    facts = tree.facts()
    assert facts.held == {
        "rag": {
            "rag_qwen_0": Hold(
                wanted="w", release="0002-a", at="2026-11-30T00:00:00Z", what="never got ready"
            )
        }
    }
    assert [note for note in facts.notes if "rag_other_0" in note]
    assert facts.used_plans == {"other": ("p1",), "rag": ("p1", "p2")}


def test_what_is_none_of_ours_keeps_nothing_from_being_told(tree: Tree) -> None:
    """A name with a line break in it, and a pipe, which nobody could read to its end."""
    tree.write(f"{STATE}/rag/plans/p1", "{}")
    tree.write(f"{STATE}/rag/plans/a\nb", "{}")
    tree.write(f"{STATE}/rag/releases/a\nb.json", "{}")
    os.mkfifo(tree.folder / STATE / "inflight.json")
    facts = tree.facts()
    assert "p1" in facts.used_plans["rag"]
    assert isinstance(facts.in_flight, Unknown) and "is a pipe" in facts.in_flight.unknown
