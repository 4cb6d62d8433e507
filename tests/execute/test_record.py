"""Releases, proofs and holds on a host: a world of nothing but busybox, the way a connection reaches it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from cpudeploy.errors import SecretError
from cpudeploy.execute.deadline import Due
from cpudeploy.execute.hold import hold_back
from cpudeploy.execute.record import prove, write_record
from cpudeploy.secrets import Secrets, same
from cpudeploy.types import operation as op
from cpudeploy.types.base import SecretRef, from_json
from cpudeploy.types.release import Instance, Release, SecretFile, identity, read_release
from cpudeploy.types.safety import Hold
from tests.transport.busybox import Busybox, busybox_world

KEY = SecretFile(
    name="api_key",
    path="/var/lib/cpudeploy/rag/secrets/rag_smol_0/api_key",
    target="/run/secrets/api_key",
    secret=SecretRef(kind="from_file", name="key"),
)
OLD = Path(__file__).parents[1] / "types" / "data" / "release-1.json"
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def host(tmp_path: Path) -> Busybox:
    if not Path("/usr/bin/busybox").exists():
        pytest.skip("there is no busybox")
    world = busybox_world(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (tmp_path / "key").write_text("hunter2")
    return world


@pytest.fixture
def secrets(host: Busybox) -> Secrets:
    return Secrets(host.folder)


def due() -> Due:
    return Due("it", 30)


def instance(**changes: object) -> Instance:
    recorded = read_release(json.loads(OLD.read_text()))
    assert recorded is not None
    found = recorded.instances["rag_smol_0"]
    container = msgspec.structs.replace(found.container, secrets=(KEY,))
    return msgspec.structs.replace(found, container=container, **changes)


def record(**changes: object) -> op.Record:
    base = op.Record(
        id="record",
        deadline_s=30,
        deployment="rag",
        release="0002-bbbbbbbb",
        host="one",
        origin="ops@desk:/rag",
        weights_dir="/w",
        instances={"rag_smol_0": instance()},
    )
    return msgspec.structs.replace(base, **changes)


def proof(container: str = "rag_smol_0", release: str = "0002-bbbbbbbb") -> op.Prove:
    return op.Prove(id="prove", deadline_s=30, deployment="rag", release=release, container=container)


def hold(wanted: str = "") -> op.HoldBack:
    return op.HoldBack(
        id="hold",
        deadline_s=30,
        deployment="rag",
        container="rag_smol_0",
        release="0002-bbbbbbbb",
        wanted=wanted or identity(instance()),
        secrets=(KEY,),
        what="rag_smol_0 never got ready",
        cause="it has a cause",
        do="change it",
    )


def released(host: Busybox, release: str = "0002-bbbbbbbb") -> Release:
    return from_json(file(host, f"releases/{release}.json").read_bytes(), Release)


def file(host: Busybox, path: str) -> Path:
    return host.folder / "var/lib/cpudeploy/rag" / path


def test_a_release_says_who_when_and_what_and_no_secret(host: Busybox, secrets: Secrets) -> None:
    write_record(host, record(), secrets, due())
    found = released(host)
    assert "@" in found.by and TIME.fullmatch(found.created)
    assert found.schema == 2
    assert found.instances == {"rag_smol_0": instance()}
    assert same("hunter2", found.secret_marks[KEY.path])
    assert "hunter2" not in file(host, "releases/0002-bbbbbbbb.json").read_text()
    assert file(host, "releases/0002-bbbbbbbb.json").stat().st_mode & 0o777 == 0o600
    assert (host.folder / "w/refs/rag.0002-bbbbbbbb").read_text() == f"{instance().tree}\n"


def test_written_twice_it_is_the_same_and_keeps_what_was_proven(host: Busybox, secrets: Secrets) -> None:
    write_record(host, record(proven=("rag_other_0",)), secrets, due())
    prove(host, proof(), due())
    before = file(host, "releases/0002-bbbbbbbb.json").read_bytes()
    write_record(host, record(proven=("rag_other_0",)), secrets, due())
    prove(host, proof(), due())
    assert file(host, "releases/0002-bbbbbbbb.json").read_bytes() == before
    assert released(host).proven == ("rag_other_0", "rag_smol_0")


def test_another_instance_is_added_to_the_release_of_this_apply(host: Busybox, secrets: Secrets) -> None:
    write_record(host, record(), secrets, due())
    other = instance(model="other")
    write_record(host, record(instances={"rag_other_0": other}, by="somebody@else"), secrets, due())
    assert released(host).instances == {"rag_smol_0": instance(), "rag_other_0": other}


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema": 2}', b"null", b"[" * 100_000])
def test_a_damaged_one_is_written_anew(host: Busybox, secrets: Secrets, damage: bytes) -> None:
    write_record(host, record(), secrets, due())
    file(host, "releases/0002-bbbbbbbb.json").write_bytes(damage)
    write_record(host, record(), secrets, due())
    assert released(host).instances == {"rag_smol_0": instance()}


def test_one_of_an_earlier_version_is_proven_in_the_form_of_today(host: Busybox) -> None:
    file(host, "releases").mkdir(parents=True)
    file(host, "releases/0001-41ad999e.json").write_bytes(OLD.read_bytes())
    prove(host, proof(release="0001-41ad999e"), due())
    found = released(host, "0001-41ad999e")
    assert (found.schema, found.proven, found.created) == (2, ("rag_smol_0",), "2026-11-30T10:00:00Z")


def test_a_hold_tells_what_failed_and_goes_with_the_proof(host: Busybox, secrets: Secrets) -> None:
    hold_back(host, hold(), secrets, due())
    path = file(host, "held/rag_smol_0.json")
    found = from_json(path.read_bytes(), Hold)
    assert (found.wanted, found.release) == (identity(instance()), "0002-bbbbbbbb")
    assert (found.what, found.cause, found.do) == (hold().what, hold().cause, hold().do)
    assert TIME.fullmatch(found.at)
    assert same("hunter2", found.secret_marks[KEY.path])
    assert path.stat().st_mode & 0o777 == 0o600
    write_record(host, record(), secrets, due())
    prove(host, proof("rag_other_0"), due())
    assert path.exists()
    prove(host, proof(), due())
    assert not path.exists()


def test_the_proof_of_something_else_leaves_the_hold(host: Busybox, secrets: Secrets) -> None:
    hold_back(host, hold("w" * 64), secrets, due())
    write_record(host, record(), secrets, due())
    prove(host, proof(), due())
    assert file(host, "held/rag_smol_0.json").exists()
    file(host, "held/rag_smol_0.json").write_text("{")
    prove(host, proof(), due())
    assert not file(host, "held/rag_smol_0.json").exists()


def test_without_its_record_a_proof_still_lifts_the_hold(host: Busybox, secrets: Secrets) -> None:
    hold_back(host, hold(), secrets, due())
    prove(host, proof(), due())
    assert not file(host, "held/rag_smol_0.json").exists()
    assert not file(host, "releases/0002-bbbbbbbb.json").exists()


def test_a_secret_that_is_gone_writes_nothing(host: Busybox, secrets: Secrets) -> None:
    (host.folder / "key").unlink()
    with pytest.raises(SecretError):
        write_record(host, record(), secrets, due())
    assert not file(host, "releases").exists()
