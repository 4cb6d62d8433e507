"""What differs between a plan and a host, as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from cpudeploy.plan.fingerprint import changed_since, matches
from cpudeploy.types.plan import Fingerprint

MIB = 1 << 20
HOST: dict[str, Any] = {
    "containers": {
        "rag_x_0": {
            "id": "b2",
            "running": False,
            "memory": 512 * MIB,
            "restart_policy": "no",
            "mark": {"release": "0001-a"},
        },
        "rag_x_0_old": {"id": "a1"},
    },
    "networks": {"rag_pub": {"deployment": ""}},
    "volumes": {"rag_x_cache": {"deployment": "rag"}},
    "images": {},
    "weights": {"trees": {"smol": {"m.gguf": 7}}, "blobs": {}},
    "engine": {"state": "stopped", "insecure": {}, "daemon": None},
    "disks": {"/var/lib/docker": {"free": 512 * MIB}, "/w": {"kind": "unknown", "unknown": "no such folder"}},
    "files": {"/etc/x": {"sha256": "f2"}},
    "tools": {"curl": True},
    "host_record": {"keys": {"/etc/x": {"owners": ["rag", "other"]}}},
}


@pytest.mark.parametrize(
    ("pointer", "wanted", "since", "still"),
    [
        (
            "/containers/rag_x_0/memory",
            1024 * MIB,
            "container rag_x_0: memory was 1 GiB, is 512 MiB",
            "container rag_x_0: memory should be 1 GiB, is 512 MiB",
        ),
        (
            "/containers/rag_x_0/running",
            True,
            "container rag_x_0 was running, is stopped",
            "container rag_x_0 should be running, is stopped",
        ),
        (
            "/containers/rag_x_0/id",
            "a1",
            "container rag_x_0 is not the one that was there",
            "container rag_x_0 is another one",
        ),
        (
            "/containers/rag_x_0/mark/release",
            "0002-b",
            "container rag_x_0: release was 0002-b, is 0001-a",
            "container rag_x_0: release should be 0002-b, is 0001-a",
        ),
        (
            "/containers/rag_x_0_old/id",
            None,
            "container rag_x_0_old was not there, is there now",
            "container rag_x_0_old should not be there",
        ),
        ("/containers/gone/id", "a1", "container gone is gone", "container gone is not there"),
        (
            "/volumes/rag_x_cache",
            None,
            "volume rag_x_cache was not there, is there now",
            "volume rag_x_cache should not be there",
        ),
        (
            "/volumes/rag_x_cache/deployment",
            "other",
            "volume rag_x_cache: deployment was other, is rag",
            "volume rag_x_cache: deployment should be other, is rag",
        ),
        (
            "/networks/rag_pub/deployment",
            "rag",
            "network rag_pub: deployment was rag, is none",
            "network rag_pub: deployment should be rag, is none",
        ),
        (
            "/weights/trees/smol",
            None,
            "model folder smol was not there, is there now",
            "model folder smol should not be there",
        ),
        (
            "/weights/blobs/" + "ab" * 32 + "/verified",
            True,
            "model file sha256:abababababab… is gone",
            "model file sha256:abababababab… is not there",
        ),
        (
            "/engine/state",
            "running",
            "the engine: state was running, is stopped",
            "the engine: state should be running, is stopped",
        ),
        (
            "/engine/insecure/10.1.1.1:5000",
            True,
            "plain HTTP to 10.1.1.1:5000 was allowed, is not allowed",
            "plain HTTP to 10.1.1.1:5000 should be allowed, is not allowed",
        ),
        (
            "/engine/daemon/sha256",
            "f1",
            "the engine's daemon.json is gone",
            "the engine's daemon.json is not there",
        ),
        ("/files/~1etc~1x/sha256", "f1", "/etc/x is not the one that was there", "/etc/x is another one"),
        ("/tools/curl", False, "curl was missing, is installed", "curl should be missing, is installed"),
        (
            "/host_record/keys/~1etc~1x/owners",
            ["rag"],
            "/etc/x: owner was rag, is rag, other",
            "/etc/x: owner should be rag, is rag, other",
        ),
    ],
)
def test_a_difference_is_told_in_words(pointer: str, wanted: Any, since: str, still: str) -> None:
    wrong = matches(Fingerprint(equals={pointer: wanted}), HOST)
    assert changed_since(wrong) == since
    assert [each.still for each in wrong] == [still]


@pytest.mark.parametrize(
    ("pointer", "least", "since"),
    [
        (
            "/disks/~1var~1lib~1docker/free",
            1024 * MIB,
            "disk of /var/lib/docker: 512 MiB free, 1 GiB are needed",
        ),
        ("/disks/~1w/free", 1024 * MIB, "disk of /w: not there free, 1 GiB are needed"),
        ("/images/sha256:" + "d" * 64 + "/size", 1, "image sha256:dddddddddddd… is gone"),
    ],
)
def test_too_little_is_told_with_what_is_needed(pointer: str, least: int, since: str) -> None:
    assert changed_since(matches(Fingerprint(at_least={pointer: least}), HOST)) == since


def test_of_a_thing_that_is_another_one_nothing_more_is_told() -> None:
    container = "/containers/rag_x_0"
    wrong = matches(
        Fingerprint(equals={f"{container}/running": True, f"{container}/id": "a1", "/tools/curl": False}),
        HOST,
    )
    told = "container rag_x_0 is not the one that was there; curl was missing, is installed"
    assert changed_since(wrong) == told


def test_an_unknown_value_is_told_with_its_reason() -> None:
    wrong = matches(Fingerprint(equals={"/disks/~1w": {"free": 1}}), HOST)
    assert changed_since(wrong) == "disk of /w is unknown (no such folder)"
