"""known_hosts files as people and OpenSSH write them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectError
from cpudeploy.transport.hostkeys import check, known
from cpudeploy.transport.settings import Settings

KEY, OTHER = b"the key", b"another key"


def blob(key: bytes) -> str:
    return base64.b64encode(key).decode()


def settings(
    file: Path, *, accept_new: bool = False, hash_names: bool = False, known_name: str = "web1"
) -> Settings:
    return Settings(
        name="h1",
        address="web1",
        port=22,
        user="ops",
        known_name=known_name,
        key_files=(),
        only_key_files=False,
        agent=None,
        known_hosts=(file, file.with_name("absent")),
        record_in=file,
        hash_names=hash_names,
        accept_new=accept_new,
        connect_timeout_s=10,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        ("web1", "web1", True),
        ("WEB1", "web1", True),
        ("web1,10.0.0.1", "10.0.0.1", True),
        ("web*", "web1", True),
        ("web?", "web12", False),
        ("*,!web1", "web1", False),
        ("[web1]:2222", "[web1]:2222", True),
        ("[web1]:2222", "web1", False),
        ("web1", "[web1]:2222", False),
        ("[w]eb1", "web1", False),
    ],
)
def test_names_match_as_in_openssh(file: Path, patterns: str, name: str, matches: bool) -> None:
    file.write_text(f"{patterns} ssh-ed25519 {blob(KEY)} comment\n")
    assert bool(known(name, [file])) is matches


def test_comments_blank_lines_and_rubbish_are_passed_over(file: Path) -> None:
    file.write_text(f"# web1 ssh-ed25519 x\n\nweb1\nweb1 ssh-ed25519 ???\nweb1 ssh-ed25519 {blob(KEY)}\n")
    assert [line.line for line in known("web1", [file])] == [5]


def test_any_of_several_keys_will_do(file: Path) -> None:
    file.write_text(f"web1 ssh-ed25519 {blob(OTHER)}\nweb1 ssh-ed25519 {blob(KEY)}\n")
    assert check(settings(file), "ssh-ed25519", KEY) is None


def test_a_revoked_key_is_refused_though_it_is_known(file: Path) -> None:
    file.write_text(f"web1 ssh-ed25519 {blob(KEY)}\n@revoked * ssh-ed25519 {blob(KEY)}\n")
    with pytest.raises(ConnectError, match=rf"revoked in {file}:2"):
        check(settings(file, accept_new=True), "ssh-ed25519", KEY)


def test_a_certificate_authority_is_not_a_key_of_the_host(file: Path) -> None:
    file.write_text(f"@cert-authority * ssh-ed25519 {blob(KEY)}\n")
    with pytest.raises(ConnectError, match="host certificates are not supported"):
        check(settings(file), "ssh-ed25519", KEY)


def test_a_new_key_goes_on_a_line_of_its_own(file: Path) -> None:
    file.write_text(f"other ssh-ed25519 {blob(OTHER)}")
    assert check(settings(file, accept_new=True, known_name="[web1]:22"), "ssh-ed25519", KEY)
    assert file.read_text().splitlines() == [
        f"other ssh-ed25519 {blob(OTHER)}",
        f"[web1]:22 ssh-ed25519 {blob(KEY)}",
    ]


def test_a_new_file_is_for_its_owner_only(file: Path) -> None:
    target = file.parent / "new" / "known_hosts"
    check(settings(target, accept_new=True), "ssh-ed25519", KEY)
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.parent.stat().st_mode & 0o777 == 0o700


def test_a_key_of_another_kind_does_not_pass_as_new(file: Path) -> None:
    file.write_text(f"web1 ssh-rsa {blob(OTHER)}\n")
    with pytest.raises(ConnectError, match="HOST KEY CHANGED"):
        check(settings(file, accept_new=True), "ssh-ed25519", KEY)


def test_a_name_is_hashed_where_ssh_would_and_found_again(file: Path) -> None:
    hashing = settings(file, accept_new=True, hash_names=True)
    assert check(hashing, "ssh-ed25519", KEY)
    assert file.read_text().startswith("|1|") and "web1" not in file.read_text()
    assert check(hashing, "ssh-ed25519", KEY) is None
