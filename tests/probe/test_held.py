"""Answers to questions and what we left on the host, by the real script on a made-up tree."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from cpudeploy.errors import HostError
from cpudeploy.probe import arguments, parse
from cpudeploy.types.base import Unknown, from_json, to_json
from cpudeploy.types.facts import DaemonFile, Disk, Facts, File, Listening, Question
from cpudeploy.types.shared import HostRecord, SharedKey

from .trees import Tree

WEIGHTS = "var/lib/cpudeploy/weights"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.cpus([((0,), 0, 0)])
    tree.memory(1 << 20)
    return tree


def file(key: str, arg: str = "") -> Question:
    return Question(kind="file", key=key, arg=arg)


def test_a_file_with_its_content(tree: Tree) -> None:
    text = 'it\'s "text"\n\n  with an end\n\n'
    (tree.folder / "a dir").mkdir()
    path = tree.folder / "a dir" / "file"
    path.write_text(text)
    path.chmod(0o640)
    found = tree.facts([file("/a dir/file", "text")]).files["/a dir/file"]
    assert found == File(
        size=len(text), mode="0640", owner="root", sha256=hashlib.sha256(text.encode()).hexdigest(), text=text
    )


def test_an_owner_of_a_directory_service_may_have_a_blank_in_the_name() -> None:
    checksum = "0" * 64
    told = {"/text": f"2 640 CORP\\jo doe {checksum} =e30=", "/large": "9 640 jo doe -", "/odd": "2 x y"}
    document = "".join(f"file:{path} 0 {len(text)}\n{text}\n" for path, text in told.items())
    files = parse(f"{document}end 0 0\n\n".encode(), "h1").files
    assert files["/text"] == File(size=2, mode="0640", owner="CORP\\jo doe", sha256=checksum, text="{}")
    assert isinstance(large := files["/large"], File)
    assert (large.owner, isinstance(large.sha256, Unknown)) == ("jo doe", True)
    assert files["/odd"] == Unknown(unknown="2 x y")


def test_a_file_without_content_asked(tree: Tree) -> None:
    tree.write("data", "x")
    found = tree.facts([file("/data")]).files["/data"]
    assert isinstance(found, File)
    assert found.text is None


def test_an_empty_file_is_not_an_absent_one(tree: Tree) -> None:
    (tree.folder / "empty").touch()
    files = tree.facts([file("/empty", "text"), file("/absent", "text")]).files
    assert isinstance(found := files["/empty"], File)
    assert (found.size, found.text) == (0, "")
    assert files["/absent"] is None


def test_a_folder_has_no_hash(tree: Tree) -> None:
    found = tree.facts([file("/etc", "text")]).files["/etc"]
    assert isinstance(found, File)
    assert isinstance(found.sha256, Unknown)
    assert found.text is None


def test_names_that_look_like_shell_are_only_names(tree: Tree) -> None:
    name = "/$(touch pwned)'; touch pwned; `touch pwned` -rf"
    assert tree.facts([file(name, "text")]).files == {name: None}
    assert not list(tree.folder.rglob("pwned"))


def test_a_name_with_a_line_break_is_refused() -> None:
    with pytest.raises(HostError, match="line break"):
        arguments([file("/a\n/b")], weights_dir="/w")


def test_a_folder_that_is_not_there_is_measured_at_its_parent(tree: Tree) -> None:
    question = Question(kind="disk", key="/data/models/new")
    found = tree.facts([question]).disks["/data/models/new"]
    at = os.statvfs(tree.folder)
    assert isinstance(found, Disk)
    assert found.total == at.f_blocks * at.f_frsize
    assert 0 < found.free < found.total
    assert found.mount.startswith("/")


def test_a_package_no_manager_knows_is_none(tree: Tree) -> None:
    asked = tree.facts([Question(kind="package", key="no-such-package-at-all")]).packages
    assert asked == {"no-such-package-at-all": None}


def test_weights_are_verified_by_what_they_were_when_hashed(tree: Tree) -> None:
    good, touched, unhashed = "a" * 64, "b" * 64, "c" * 64
    for name in (good, touched, unhashed):
        tree.write(f"{WEIGHTS}/blobs/{name}", "weights")
        stat = (tree.folder / WEIGHTS / "blobs" / name).stat()
        if name != unhashed:
            size = stat.st_size + (name == touched)
            tree.write(f"{WEIGHTS}/blobs/{name}.meta", f"{size} {int(stat.st_mtime)} {stat.st_ino}")
    tree.write(f"{WEIGHTS}/partial/{'d' * 64}", "half")
    tree.write(f"{WEIGHTS}/refs/rag.0001-abcd", "tree-1\ntree-2\n")
    tree.write(f"{WEIGHTS}/claims/rag", f"{'a' * 64}\n{'b' * 64}\n")
    for file in ("sub/b.gguf", "sub/deep/deeper/c.txt", ".hidden.json"):
        tree.write(f"{WEIGHTS}/trees/tree-1/{file}", "x")
    tree.write(f"{WEIGHTS}/trees/.tree-2.4711/begun.gguf", "x")
    (tree.folder / WEIGHTS / "trees/tree-1/Model A.gguf").hardlink_to(tree.folder / WEIGHTS / "blobs" / good)
    weights = tree.facts().weights
    assert {name: blob.verified for name, blob in weights.blobs.items()} == {
        good: True,
        touched: False,
        unhashed: False,
    }
    assert weights.blobs[good].size == 8
    assert weights.trees["tree-1"]["Model A.gguf"] == weights.blobs[good].inode
    linked = {"Model A.gguf", "sub/b.gguf", "sub/deep/deeper/c.txt", ".hidden.json"}
    assert {name: set(files) for name, files in weights.trees.items()} == {"tree-1": linked}
    assert weights.partial == {"d" * 64: 5}
    assert weights.refs == {"rag.0001-abcd": ("tree-1", "tree-2")}
    assert weights.claims == {"rag": ("a" * 64, "b" * 64)}


def test_releases_and_the_hosts_record(tree: Tree) -> None:
    tree.write("var/lib/cpudeploy/rag/releases/0001-abcd.json", '{"id": "0001-abcd"}')
    tree.write("var/lib/cpudeploy/rag/releases/0002-beef.json", "{broken")
    tree.write("var/lib/cpudeploy/other/releases/0001-f00d.json", "{}")
    facts = tree.facts()
    assert facts.releases == {
        "rag": {"0001-abcd": {"id": "0001-abcd"}, "0002-beef": {"unknown": "not JSON"}},
        "other": {"0001-f00d": {}},
    }
    assert facts.host_record == HostRecord()


@pytest.mark.parametrize(
    "text", ["", "{broken", '{"a": NaN}', "[" * 100_000], ids=["empty", "cut", "nan", "deep"]
)
def test_a_damaged_release_is_told_as_that(tree: Tree, text: str) -> None:
    tree.write("var/lib/cpudeploy/rag/releases/0001-abcd.json", text)
    facts = tree.facts()
    assert facts.releases == {"rag": {"0001-abcd": {"unknown": "not JSON"}}}
    assert from_json(to_json(facts), Facts) == facts


def test_what_deployments_claim(tree: Tree) -> None:
    tree.write(
        "var/lib/cpudeploy/host.json", '{"keys": {"a": {"before": null, "ours": true, "owners": ["rag"]}}}'
    )
    claimed = SharedKey(before=None, ours=True, owners=("rag",))
    assert tree.facts().host_record == HostRecord(keys={"a": claimed})


@pytest.mark.parametrize("text", ["", "{broken", "[]", '{"keys": {"a": 1}}', '{"newer": 1}'])
def test_claims_that_cannot_be_understood_are_unknown_and_not_none(tree: Tree, text: str) -> None:
    tree.write("var/lib/cpudeploy/host.json", text)
    assert isinstance(tree.facts().host_record, Unknown)


def test_of_daemon_json_only_what_steps_need_is_told(tree: Tree) -> None:
    text = '{"insecure-registries": ["a:5000"], "proxies": {"http-proxy": "http://me:planted@proxy"}}\n'
    tree.write("etc/docker/daemon.json", text)
    facts = tree.facts()
    assert facts.engine.daemon == DaemonFile(
        sha256=hashlib.sha256(text.encode()).hexdigest(), insecure=("a:5000",)
    )
    assert b"planted" not in to_json(facts)


def test_of_a_setting_only_whether_it_is_as_asked_or_as_claimed_is_told(tree: Tree) -> None:
    text = '{"a": {"y": 1, "x": "planted"}, "b": "planted", "c": true, "d": 1, "e": "planted"}'
    tree.write("etc/docker/daemon.json", text)
    ours = {"c": "true", "d": "2", "gone": "1"}
    claims = {
        f"/etc/docker/daemon.json#/{key}": SharedKey(before=None, ours=value, owners=("rag",))
        for key, value in ours.items()
    }
    tree.write("var/lib/cpudeploy/host.json", to_json(HostRecord(keys=claims)).decode())
    wanted = {"a": '{"x":"planted","y":1}', "b": '"mine"', "absent": "1"}
    facts = tree.facts([Question(kind="setting", key=key, arg=value) for key, value in wanted.items()])
    assert isinstance(facts.engine.daemon, DaemonFile)
    assert facts.engine.daemon.settings == {"a": True, "b": False, "c": True, "d": False}
    assert b"planted" not in to_json(facts)


@pytest.mark.parametrize("text", ["{broken", "[]", '{"insecure-registries": "a"}'])
def test_a_daemon_json_that_cannot_be_understood_is_unknown(tree: Tree, text: str) -> None:
    tree.write("etc/docker/daemon.json", text)
    assert isinstance(tree.facts().engine.daemon, Unknown)


def test_an_empty_daemon_json_is_one_without_settings(tree: Tree) -> None:
    tree.write("etc/docker/daemon.json", "")
    found = tree.facts().engine.daemon
    assert isinstance(found, DaemonFile)
    assert found.insecure == ()


def test_listening_ports_of_both_families(tree: Tree) -> None:
    tree.write(
        "proc/net/tcp",
        "  sl  local_address\n   0: 0100007F:1F90 00000000:0000 0A x\n   1: 0B074D0A:0016 0100000A:D2 01 x\n",
    )
    tree.write(
        "proc/net/tcp6",
        "  sl  local_address\n"
        "   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A x\n"
        "   1: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A x\n",
    )
    assert tree.facts().ports == (
        Listening(address="127.0.0.1", port=8080),
        Listening(address="::", port=22),
        Listening(address="::ffff:7f00:1", port=80),
    )


def test_ports_that_cannot_be_read_are_unknown(tree: Tree) -> None:
    assert isinstance(tree.facts().ports, Unknown)


def test_addresses_and_routes(tree: Tree) -> None:
    tree.write(
        "proc/net/fib_trie",
        "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.20.1.11\n        /32 host LOCAL\n"
        "     |-- 10.20.1.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n",
    )
    tree.write(
        "proc/net/if_inet6",
        "20010db8000000000000000000000001 02 40 00 80 eth0\n"
        "fe800000000000000000000000000001 02 40 20 80 eth0\n",
    )
    tree.write(
        "proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t0101140A\t0003\t0\t0\t0\t00000000\neth0\t0001140A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n",
    )
    facts = tree.facts()
    assert facts.addresses == ("10.20.1.11", "2001:db8::1")
    assert facts.routes == ("10.20.1.0/24",)


def test_a_document_cut_off_is_not_taken_for_facts(tree: Tree) -> None:
    document = tree.document()
    for cut in (len(document) // 2, len(document) - 8):
        with pytest.raises(HostError, match="damaged"):
            parse(document[:cut], "h1")
