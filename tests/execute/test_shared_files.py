"""Files that others write, too: daemon.json and host.json, edited on this machine by the real scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cpudeploy.errors import OperationFailed, StalePlan
from cpudeploy.execute.assign_json import assign_json
from cpudeploy.execute.host_file import edit_file, sha256_of
from cpudeploy.execute.host_record import keep_claims
from cpudeploy.execute.json_file import keep_json
from cpudeploy.execute.merge_json import merge_json
from cpudeploy.secrets import Secrets
from cpudeploy.transport.local import LocalConnection
from cpudeploy.types.base import from_json
from cpudeploy.types.deployment import Host, Ssh
from cpudeploy.types.operation import AssignJson, Claim, Disclaim, KeepJson, MergeJson
from cpudeploy.types.shared import HostRecord, SharedKey

THEIRS = '{"proxies": {"http-proxy": "http://me:pass@proxy"}, "insecure-registries": ["theirs:5000"]}'


@pytest.fixture
def here(tmp_path: Path) -> LocalConnection:
    return LocalConnection(Host(name="here", connection="local", ssh=Ssh(address="here")), Secrets(tmp_path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "daemon.json"


Merge = Callable[..., None]


@pytest.fixture
def merge(here: LocalConnection, file: Path) -> Merge:
    """Edit the list of insecure registries in `file`."""

    def act(**given) -> None:
        operation = MergeJson(id="m", deadline_s=30, path=str(file), key="insecure-registries", **given)
        merge_json(here, operation)

    return act


def write(file: Path, text: str, mode: int = 0o644) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def test_what_the_owner_wrote_stays(merge: Merge, file: Path) -> None:
    write(file, THEIRS)
    merge(add=("ours:5000",))
    found = json.loads(file.read_text())
    assert found.pop("insecure-registries") == ["theirs:5000", "ours:5000"]
    assert found == {"proxies": {"http-proxy": "http://me:pass@proxy"}}


def test_mode_and_owner_stay(merge: Merge, file: Path) -> None:
    write(file, THEIRS, 0o640)
    os.chown(file, 12, 34)
    merge(add=("ours:5000",))
    stat = file.stat()
    assert (oct(stat.st_mode), stat.st_uid, stat.st_gid) == ("0o100640", 12, 34)
    assert [*file.parent.iterdir()] == [file]


def test_a_symlink_stays_one_and_its_target_is_edited(merge: Merge, file: Path) -> None:
    managed = file.parent.parent / "managed.json"
    write(managed, THEIRS)
    file.parent.mkdir()
    file.symlink_to("../managed.json")
    merge(add=("ours:5000",))
    assert file.is_symlink()
    assert "ours:5000" in managed.read_text()


@pytest.mark.parametrize("empty", [None, "", "{}\n"])
def test_an_absent_or_empty_file_is_made(merge: Merge, file: Path, empty: str | None) -> None:
    if empty is not None:
        write(file, empty)
    merge(add=("ours:5000",))
    assert json.loads(file.read_text()) == {"insecure-registries": ["ours:5000"]}
    assert oct(file.stat().st_mode) == "0o100644"
    assert oct(file.parent.stat().st_mode) == "0o40755"


def test_done_already_is_done_whatever_else_changed(merge: Merge, file: Path) -> None:
    write(file, THEIRS)
    before = file.stat()
    merge(add=("theirs:5000",), remove=("gone:5000",))
    assert file.stat() == before


@pytest.mark.parametrize(
    "text", ["{broken", "[]", '{"insecure-registries": "a"}', '{"insecure-registries": [1]}']
)
def test_what_is_not_understood_is_refused_with_words_and_not_touched(
    merge: Merge, file: Path, text: str
) -> None:
    write(file, text)
    with pytest.raises(OperationFailed) as error:
        merge(add=("ours:5000",))
    assert "repair" in error.value.do
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("text", "tidy", "left"),
    [
        (THEIRS, "file", ["theirs:5000"]),
        ('{"insecure-registries": ["ours:5000"], "debug": true}', "list", None),
        ('{"insecure-registries": ["ours:5000"]}', "list", None),
        ('{"insecure-registries": ["ours:5000"]}', "nothing", []),
    ],
)
def test_taken_out_again(merge: Merge, file: Path, text: str, tidy: str, left: list[str] | None) -> None:
    write(file, text)
    merge(remove=("ours:5000",), tidy=tidy)
    assert json.loads(file.read_text()).get("insecure-registries") == left


def test_a_file_made_only_for_us_goes_with_the_last_of_it(merge: Merge, file: Path) -> None:
    merge(add=("ours:5000",))
    merge(remove=("ours:5000",))
    assert json.loads(file.read_text()) == {"insecure-registries": []}
    merge(tidy="file")
    assert not file.exists()
    merge(tidy="file")
    assert not file.exists()


def test_an_edit_that_comes_between_is_not_lost(here: LocalConnection, file: Path) -> None:
    write(file, "1")

    def edit(data: bytes | None) -> bytes | None:
        if data == b"1":
            file.write_text("somebody else's")
        return (data or b"") + b" and ours"

    edit_file(here, str(file), edit, mode="0644", deadline_s=30)
    assert file.read_text() == "somebody else's and ours"


def claims(*owners: str, before: bool = False) -> dict[str, SharedKey]:
    return {"a:5000": SharedKey(before=before, ours=True, owners=owners)}


def record(file: Path) -> HostRecord:
    return from_json(file.read_bytes(), HostRecord)


def test_claims_come_and_go_and_what_was_before_is_kept(here: LocalConnection, file: Path) -> None:
    keep_claims(here, Claim(id="c", deadline_s=30, keys=claims("rag")), str(file))
    keep_claims(here, Claim(id="c", deadline_s=30, keys=claims("other", before=True)), str(file))
    assert record(file).keys == claims("other", "rag")
    assert oct(file.stat().st_mode) == "0o100600"
    assert oct(file.parent.stat().st_mode) == "0o40700"
    for deployment in ("rag", "rag"):
        keep_claims(here, Disclaim(id="d", deadline_s=30, deployment=deployment, keys=("a:5000",)), str(file))
    assert record(file).keys == claims("other")
    keep_claims(here, Disclaim(id="d", deadline_s=30, deployment="other", keys=("a:5000", "b")), str(file))
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "{broken", '{"keys": {"a": 1}}', '{"newer": {}}'])
def test_a_record_that_is_not_understood_keeps_the_claims_in_it(
    here: LocalConnection, file: Path, text: str
) -> None:
    write(file, text)
    for operation in (
        Claim(id="c", deadline_s=30, keys=claims("rag")),
        Disclaim(id="d", deadline_s=30, deployment="rag", keys=("a:5000",)),
    ):
        with pytest.raises(OperationFailed, match="not a host record"):
            keep_claims(here, operation, str(file))
    assert file.read_text() == text


@pytest.fixture
def assign(here: LocalConnection, file: Path, tmp_path: Path) -> Merge:
    """Set or give up settings in `file`; the state folder is `tmp_path`."""

    def act(**given) -> None:
        operation = AssignJson(id="a", deadline_s=30, path=str(file), **{"deployment": "rag", **given})
        state = {"record_path": f"{tmp_path}/host.json", "before_path": f"{tmp_path}/before.json"}
        assign_json(here, operation, **state, kept=str(tmp_path / "kept"))

    return act


def test_a_setting_comes_and_goes_and_what_was_there_is_kept_for_root_alone(
    assign: Merge, file: Path, tmp_path: Path
) -> None:
    theirs = {"log-opts": {"secret": "planted"}, "debug": True}
    write(file, json.dumps(theirs))
    for _ in range(2):
        assign(values={"log-opts": {"max-size": "1m"}, "mtu": 1400})
    assert json.loads(file.read_text()) == {"log-opts": {"max-size": "1m"}, "debug": True, "mtu": 1400}
    kept = tmp_path / "before.json"
    assert oct(kept.stat().st_mode) == "0o100600"
    assert "planted" in kept.read_text()
    assert "planted" not in (tmp_path / "host.json").read_text()
    for _ in range(2):
        assign(release=("log-opts", "mtu"))
    assert json.loads(file.read_text()) == theirs
    assert not kept.exists() and not (tmp_path / "host.json").exists()


def test_a_setting_stays_while_somebody_needs_it(assign: Merge, file: Path) -> None:
    assign(values={"mtu": 1400})
    assign(values={"mtu": 1400}, deployment="other")
    assign(release=("mtu",))
    assert json.loads(file.read_text()) == {"mtu": 1400}
    with pytest.raises(OperationFailed, match="for other"):
        assign(values={"mtu": 1500})
    assert json.loads(file.read_text()) == {"mtu": 1400}
    assign(release=("mtu",), deployment="other")
    assert json.loads(file.read_text()) == {}


def test_a_setting_somebody_else_changed_since_is_theirs(assign: Merge, file: Path) -> None:
    assign(values={"mtu": 1400})
    write(file, '{"mtu": 9000}')
    assign(release=("mtu",))
    assert json.loads(file.read_text()) == {"mtu": 9000}


def test_what_was_not_there_is_neutral_for_a_while_and_then_gone(assign: Merge, file: Path) -> None:
    assign(values={"debug": True})
    going = {"release": ("debug",), "neutral": {"debug": False}}
    for _ in range(2):
        assign(**going, meanwhile=True)
    assert json.loads(file.read_text()) == {"debug": False}
    assign(**going)
    assert json.loads(file.read_text()) == {}


def keep(here: LocalConnection, file: Path, tmp_path: Path, **given) -> Path:
    known = file.read_bytes() if file.exists() else None
    operation = KeepJson(
        id="k",
        deadline_s=30,
        path=str(file),
        kept="daemon.json",
        **{"token": "1", "expected_sha256": sha256_of(known), **given},
    )
    keep_json(here, operation, str(tmp_path / "kept"))
    return tmp_path / "kept" / "daemon.json"


def test_what_a_file_was_is_kept_with_the_ways_back_to_it(
    here: LocalConnection, file: Path, tmp_path: Path
) -> None:
    write(file, THEIRS)
    ways = {"restarted": {"live-restore": True}, "reloaded": {"debug": False, "insecure-registries": []}}
    kept = keep(here, file, tmp_path, **ways)
    assert (kept / "was").read_text() == THEIRS
    theirs = json.loads(THEIRS)
    assert json.loads((kept / "restarted").read_text()) == {**theirs, "live-restore": True}
    assert json.loads((kept / "reloaded").read_text()) == {"debug": False, **theirs}
    assert {oct(each.stat().st_mode) for each in kept.iterdir()} == {"0o100600"}
    assert oct(kept.stat().st_mode) == "0o40700"


def test_every_edit_says_what_it_is_about_to_write_and_is_not_taken_for_what_was(
    here: LocalConnection, file: Path, tmp_path: Path, assign: Merge
) -> None:
    kept = keep(here, file, tmp_path)
    assign(values={"mtu": 1400}, kept="daemon.json")
    assert f"sha256:{sha256_of(file.read_bytes())}" in (kept / "wrote").read_text().split()
    keep(here, file, tmp_path, expected_sha256="")
    assert not (kept / "was").exists()
    keep(here, file, tmp_path, token="2")
    assert json.loads((kept / "was").read_text()) == {"mtu": 1400}


def test_a_file_changed_since_the_plan_is_stale_and_nothing_is_kept(
    here: LocalConnection, file: Path, tmp_path: Path
) -> None:
    write(file, THEIRS)
    with pytest.raises(StalePlan, match="changed since the plan"):
        keep(here, file, tmp_path, expected_sha256=sha256_of(b"{}"))
    assert not (tmp_path / "kept").exists()
