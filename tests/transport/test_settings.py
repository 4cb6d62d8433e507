"""A manifest's ssh entry as the user's own ssh would read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.errors import ConnectError
from cpudeploy.transport.settings import resolve
from cpudeploy.types.deployment import Ssh


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    file.write_text("")
    return file


def ssh(config: Path, address: str = "web1", **more: object) -> Ssh:
    return Ssh(address=address, config=str(config), **more)  # type: ignore[arg-type]


def test_match_include_and_tokens_work(config: Path) -> None:
    included = config.with_name("more")
    included.write_text("Host web*\n  HostName %h.example.org\n  User deploy\n")
    config.write_text(
        f"Include {included}\nMatch host web1.example.org\n  Port 2222\n  IdentityFile ~/keys/%h-%r\n"
    )
    settings = resolve("h1", ssh(config))
    assert (settings.address, settings.port, settings.user) == ("web1.example.org", 2222, "deploy")
    assert settings.known_name == "[web1.example.org]:2222"
    assert settings.key_files == (Path.home() / "keys" / "web1.example.org-deploy",)


def test_the_manifest_is_stronger_than_the_configuration(config: Path) -> None:
    config.write_text("Host *\n  Port 2222\n  User deploy\n")
    settings = resolve("h1", ssh(config, port=22, user="ops"))
    assert (settings.port, settings.user) == (22, "ops")


def test_a_host_key_alias_is_the_whole_name(config: Path) -> None:
    config.write_text("Host *\n  Port 2222\n  HostKeyAlias cluster\n")
    assert resolve("h1", ssh(config)).known_name == "cluster"


def test_a_chain_of_jumps_is_resolved_hop_by_hop(config: Path) -> None:
    config.write_text(
        "Host web1\n  ProxyJump ops@first:2201,second\nHost second\n  HostName 10.0.0.2\n  User hop\n"
    )
    settings = resolve("h1", ssh(config, user="root"))
    second = settings.jump
    assert second is not None and second.jump is not None
    assert (second.address, second.user) == ("10.0.0.2", "hop")
    assert str(second.jump) == "ops@first:2201"
    assert second.jump.jump is None


def test_jumps_that_lead_in_a_circle_are_an_error(config: Path) -> None:
    config.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump c\nHost c\n  ProxyJump a\n")
    with pytest.raises(ConnectError):
        resolve("h1", ssh(config, "a"))


def test_a_proxy_command_has_its_tokens_filled_in(config: Path) -> None:
    config.write_text("Host *\n  Port 2222\n  User ops\n  ProxyCommand proxy --to %h:%p --as %r 100%%\n")
    assert resolve("h1", ssh(config)).proxy_command == "proxy --to web1:2222 --as ops 100%"


def test_a_configuration_that_cannot_be_read_is_told(config: Path) -> None:
    config.write_text("NoSuchOption yes\n")
    with pytest.raises(ConnectError, match="can't be read") as caught:
        resolve("h1", ssh(config))
    assert "ssh -G" in caught.value.do


def test_another_agent_than_the_environments_is_not_used_and_that_is_said(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    assert resolve("h1", ssh(config)).agent == "/run/agent"
    config.write_text("Host *\n  IdentityAgent /run/other\n")
    settings = resolve("h1", ssh(config))
    assert settings.agent is None
    assert "/run/other" in settings.notes[0]


def test_without_a_client_the_manifest_alone_counts_and_that_is_said(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = resolve("h1", ssh(config, "10.0.0.1", port=2222, user="ops"))
    assert (settings.address, settings.port, settings.user) == ("10.0.0.1", 2222, "ops")
    assert settings.known_name == "[10.0.0.1]:2222"
    assert tmp_path / ".ssh" / "known_hosts" in settings.known_hosts
    assert len(settings.notes) == 1 and "no ssh client" in settings.notes[0]


@pytest.mark.parametrize("address", ["2001:db8::5", "[2001:db8::5]", "2001:DB8:0:0::5"])
def test_an_ipv6_address_is_one_with_and_without_brackets(config: Path, address: str) -> None:
    settings = resolve("h1", ssh(config, address, port=2222))
    assert (settings.address, settings.port) == ("2001:db8::5", 2222)
    assert settings.known_name == "[2001:db8::5]:2222"
    assert resolve("h1", ssh(config, address)).known_name == "2001:db8::5"


@pytest.mark.parametrize("address", ["fe80::1%eth0", "[fe80::1%eth0]"])
def test_an_ipv6_scope_stays_with_its_address(config: Path, address: str) -> None:
    assert resolve("h1", ssh(config, address)).address == "fe80::1%eth0"


@pytest.mark.parametrize(
    ("jump", "address", "port"),
    [
        ("[2001:db8::1]:2201", "2001:db8::1", 2201),
        ("ops@[2001:db8::1]", "2001:db8::1", 22),
        ("ssh://ops@first:2201", "first", 2201),
    ],
)
def test_a_jump_is_a_name_or_an_ipv6_address_with_or_without_user_and_port(
    config: Path, jump: str, address: str, port: int
) -> None:
    config.write_text(f"Host web1\n  ProxyJump {jump}\n")
    hop = resolve("h1", ssh(config)).jump
    assert hop is not None
    assert (hop.address, hop.port) == (address, port)


def test_tokens_and_variables_of_file_names_are_filled_in(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", "/srv/keys")
    config.write_text(
        "Host web1\n  HostName 10.0.0.1\n  HostKeyAlias cluster\n  IdentityFile ${KEYS}/%n-%k-%p\n"
        "  UserKnownHostsFile ~/known-%h\n"
    )
    settings = resolve("h1", ssh(config))
    assert settings.key_files == (Path("/srv/keys/web1-cluster-22"),)
    assert settings.record_in == Path.home() / "known-10.0.0.1"


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("UserKnownHostsFile /srv/a /srv/b", Path("/srv/a")),
        ("UserKnownHostsFile none", None),
        ("UserKnownHostsFile /dev/null", None),
    ],
)
def test_new_keys_go_where_ssh_puts_them(config: Path, line: str, file: Path | None) -> None:
    config.write_text(f"Host *\n  {line}\n")
    assert resolve("h1", ssh(config)).record_in == file
