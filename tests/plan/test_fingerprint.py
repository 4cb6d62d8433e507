"""Fingerprints against documents: what holds, what differs and how it is told."""

from __future__ import annotations

import pytest

from cpudeploy.plan.fingerprint import matches
from cpudeploy.types.plan import Fingerprint
from cpudeploy.types.pointer import lookup

HOST = {
    "containers": {"rag_qwen_0": {"running": True, "exit_code": 0}},
    "images": {"ghcr.io/a/b@sha256:1": {"size": 5}},
    "files": {"/etc/a~b": {"mode": "0600"}},
    "disks": {"/data": {"free": 100}, "/gone": {"kind": "unknown", "unknown": "no such folder"}},
    "list": [10, 20],
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/containers/rag_qwen_0/running", True),
        ("/images/ghcr.io~1a~1b@sha256:1/size", 5),
        ("/files/~1etc~1a~0b/mode", "0600"),
        ("/list/1", 20),
        ("/list/2", None),
        ("/list/-1", None),
        ("/containers/other/running", None),
        ("/containers/rag_qwen_0/running/deeper", None),
        ("", HOST),
    ],
)
def test_pointer_finds_the_value_or_nothing(pointer: str, value: object) -> None:
    assert lookup(HOST, pointer) == value


def test_pointer_without_leading_slash_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON pointer"):
        lookup(HOST, "containers")


@pytest.mark.parametrize(
    "holds",
    [
        Fingerprint(),
        Fingerprint(equals={"/containers/rag_qwen_0/running": True}),
        Fingerprint(equals={"/containers/absent": None}),
        Fingerprint(at_least={"/disks/~1data/free": 100}),
    ],
)
def test_what_holds_has_no_mismatch(holds: Fingerprint) -> None:
    assert matches(holds, HOST) == ()


@pytest.mark.parametrize(
    ("differs", "wanted", "found"),
    [
        (Fingerprint(equals={"/containers/rag_qwen_0/running": False}), False, True),
        (Fingerprint(equals={"/containers/absent/running": True}), True, None),
        (Fingerprint(at_least={"/disks/~1data/free": 101}), 101, 100),
        (Fingerprint(at_least={"/disks/~1gone": 1}), 1, {"kind": "unknown", "unknown": "no such folder"}),
        (Fingerprint(at_least={"/containers/rag_qwen_0/running": 1}), 1, True),
        (Fingerprint(equals={"/containers/rag_qwen_0/exit_code": False}), False, 0),
    ],
)
def test_what_differs_is_told_with_wanted_and_found(
    differs: Fingerprint, wanted: object, found: object
) -> None:
    (mismatch,) = matches(differs, HOST)
    assert (mismatch.wanted, mismatch.found) == (wanted, found)
