"""How a host is reached, as the user's own ssh would: a manifest entry → concrete settings.

In: `types.deployment.Ssh`. Out: `Settings`, with every jump resolved the same way. Asks `ssh -G`, so
Match, Include and tokens work as people wrote them; without an OpenSSH client the manifest's values
alone are used, and a note says so. Never connects.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import ConnectError
from ..types.deployment import Ssh

CONNECT_TIMEOUT_S = 10
_MOST_JUMPS = 8
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_NO_CLIENT = "no ssh client on this machine: ssh configuration and jumps are not read, only the manifest"


@dataclass(frozen=True)
class Settings:
    """One hop, resolved. `known_name` is what known_hosts calls it; `key_files` may not exist."""

    name: str
    address: str
    port: int
    user: str
    known_name: str
    key_files: tuple[Path, ...]
    only_key_files: bool
    agent: str | None
    """Socket of the agent; None: none is used."""
    known_hosts: tuple[Path, ...]
    record_in: Path | None
    """The known_hosts file that new keys go to; None: there is none."""
    hash_names: bool
    accept_new: bool
    connect_timeout_s: int
    jump: Settings | None = None
    proxy_command: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


def resolve(name: str, ssh: Ssh) -> Settings:
    """Settings for the host `name`. Raises ConnectError when the ssh configuration can't be read."""
    if ssh.address.startswith("-"):
        raise ConnectError(f"{ssh.address!r} is no address", where=name, do="correct `address`")
    # Brackets are how people set an IPv6 address off from a port; ssh itself takes them for a name.
    if bare := re.fullmatch(r"\[([0-9A-Fa-f:.]+(%.+)?)\]", ssh.address):
        ssh = msgspec.structs.replace(ssh, address=bare[1])
    if shutil.which("ssh") is None:
        return _plain(name, ssh)
    return _hop(name, ssh, depth=0)


def _hop(name: str, ssh: Ssh, *, depth: int, jump: Settings | None = None) -> Settings:
    said = _ask(name, ssh)
    values = {key: found[-1] for key, found in said.items()}
    proxy = _set(values, "proxycommand")
    if jump is None and proxy is None and (hops := _set(values, "proxyjump")):
        jump = _jumps(name, hops, ssh, depth)
    address, port, user = values["hostname"], int(values["port"]), values["user"]
    timeout = values.get("connecttimeout", "none")
    agent, note = _agent(_set(values, "identityagent"))
    alias = _set(values, "hostkeyalias")
    tokens = _tokens(ssh.address, address, port, user, alias or "", values.get("proxyjump", ""))
    users, shared = (
        [
            Path(_expand(word, tokens)).expanduser()
            for word in shlex.split(values.get(key, ""))
            if word != "none"
        ]
        for key in ("userknownhostsfile", "globalknownhostsfile")
    )
    return Settings(
        name=name,
        address=address,
        port=port,
        user=user,
        known_name=alias or _known_name(address, port),
        key_files=tuple(Path(_expand(path, tokens)).expanduser() for path in said.get("identityfile", [])),
        only_key_files=values.get("identitiesonly") == "yes",
        agent=agent,
        known_hosts=(*users, *shared),
        record_in=_recording(users),
        hash_names=values.get("hashknownhosts") == "yes",
        accept_new=ssh.host_keys == "accept-new",
        connect_timeout_s=int(timeout) if timeout.isdigit() and int(timeout) > 0 else CONNECT_TIMEOUT_S,
        jump=jump,
        proxy_command=None if jump is not None or proxy is None else _expand(proxy, tokens, env=False),
        notes=(note,) if note else (),
    )


def _known_name(address: str, port: int) -> str:
    return address if port == 22 else f"[{address}]:{port}"


def _jumps(name: str, hops: str, ssh: Ssh, depth: int) -> Settings:
    """`[user@]host[:port],…` as a chain; the first hop may have jumps of its own."""
    words = hops.split(",")
    if depth + len(words) > _MOST_JUMPS:
        raise ConnectError("ProxyJump leads in a circle", where=name, do="correct the ssh configuration")
    hop: Settings | None = None
    for word in words:
        user, _, place = word.strip().removeprefix("ssh://").rpartition("@")
        address, port = _split_port(place)
        wanted = Ssh(
            address=address, port=port, user=user or None, config=ssh.config, host_keys=ssh.host_keys
        )
        hop = _hop(f"{name} (jump {address})", wanted, depth=depth + len(words), jump=hop)
    assert hop is not None
    return hop


def _split_port(place: str) -> tuple[str, int | None]:
    if place.startswith("["):
        address, _, rest = place[1:].partition("]")
        return address, int(rest[1:]) if rest[1:].isdigit() else None
    if place.count(":") > 1:  # an IPv6 address by itself
        return place, None
    address, colon, port = place.partition(":")
    return (address, int(port)) if colon and port.isdigit() else (place, None)


def _ask(name: str, ssh: Ssh) -> Mapping[str, Sequence[str]]:
    """`ssh -G` as key → values in order."""
    command = ["ssh", "-G"]
    if ssh.config is not None:
        command += ["-F", ssh.config]
    if ssh.port is not None:
        command += ["-p", str(ssh.port)]
    if ssh.user is not None:
        command += ["-l", ssh.user]
    command += ["--", ssh.address]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConnectError(f"`ssh -G` failed: {error}", where=name) from None
    if done.returncode != 0:
        first, _, _ = done.stderr.strip().partition("\n")
        raise ConnectError(
            f"the ssh configuration can't be read: {first}",
            where=name,
            do="try `" + shlex.join(command) + "`",
        )
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key, []).append(value)
    return said


def _plain(name: str, ssh: Ssh) -> Settings:
    home = Path.home() / ".ssh"
    agent, _ = _agent(None)
    return Settings(
        name=name,
        address=ssh.address,
        port=ssh.port or 22,
        user=ssh.user or getpass.getuser(),
        known_name=_known_name(ssh.address, ssh.port or 22),
        key_files=tuple(home / key for key in _DEFAULT_KEYS),
        only_key_files=False,
        agent=agent,
        known_hosts=(home / "known_hosts", Path("/etc/ssh/ssh_known_hosts")),
        record_in=home / "known_hosts",
        hash_names=False,
        accept_new=ssh.host_keys == "accept-new",
        connect_timeout_s=CONNECT_TIMEOUT_S,
        notes=(_NO_CLIENT,),
    )


def _set(values: Mapping[str, str], key: str) -> str | None:
    value = values.get(key, "")
    return None if value in ("", "none") else value


def _agent(identity_agent: str | None) -> tuple[str | None, str]:
    """(agent socket, note). paramiko finds an agent by SSH_AUTH_SOCK only."""
    environment = os.environ.get("SSH_AUTH_SOCK")
    if identity_agent in (None, "SSH_AUTH_SOCK", "$SSH_AUTH_SOCK", environment):
        return environment, ""
    return None, f"IdentityAgent {identity_agent} is not used: only the agent of SSH_AUTH_SOCK is"


def _recording(users: Sequence[Path]) -> Path | None:
    """Where ssh itself would write a new key: the first of the user's files, unless that keeps nothing."""
    return users[0] if users and users[0] != Path(os.devnull) else None


def _tokens(given: str, address: str, port: int, user: str, alias: str, jump: str) -> Mapping[str, str]:
    """What stands behind the percent signs that `ssh -G` leaves as written."""
    here = socket.gethostname()
    return {
        "%%": "%",
        "%C": hashlib.sha1(f"{here}{address}{port}{user}{jump}".encode(), usedforsecurity=False).hexdigest(),
        "%d": str(Path.home()),
        "%h": address,
        "%i": str(os.getuid()),
        "%j": jump,
        "%k": alias or given,
        "%L": here.partition(".")[0],
        "%l": here,
        "%n": given,
        "%p": str(port),
        "%r": user,
        "%u": getpass.getuser(),
    }


def _expand(text: str, tokens: Mapping[str, str], *, env: bool = True) -> str:
    """`text` with its tokens and, in file names, `${VARIABLES}` filled in."""
    text = re.sub("%.", lambda token: tokens.get(token[0], token[0]), text)
    return re.sub(r"\$\{(\w+)\}", lambda name: os.environ.get(name[1], name[0]), text) if env else text
