"""Keys and agent, in OpenSSH's order, with an account of what was tried. Never a password, never a prompt.

In: `Settings`. Out: a paramiko AuthStrategy; after a failure its `tried` says why each key did not do.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentKey
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey

from .settings import Settings

MOST_TRIES = 6
"""sshd's MaxAuthTries: further keys would only get the connection cut."""


class Keys(AuthStrategy):
    """Tries agent keys named by the configuration, other agent keys, then key files."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(ssh_config=paramiko.SSHConfig())
        self._settings = settings
        self.tried: list[str] = []
        self.sent = 0
        """Keys that were sent to the host."""
        self._transport: paramiko.Transport | None = None

    def get_sources(self) -> Iterator[AuthSource]:
        for number, (label, key) in enumerate(self._keys()):
            if number == MOST_TRIES:
                self.tried.append("more keys were not tried (set IdentitiesOnly and IdentityFile)")
                return
            if self._transport is not None and not self._transport.is_active():
                return  # nobody is there any more to judge the others
            # Named before it is sent: the server may cut the connection on it.
            self.tried.append(f"{label}: refused by the host")
            self.sent += 1
            yield InMemoryPrivateKey(self._settings.user, key)

    def authenticate(self, transport: paramiko.Transport) -> Any:
        """As the base class; `tried` is empty after success."""
        self._transport = transport
        result = super().authenticate(transport)
        self.tried.clear()
        return result

    def _keys(self) -> Iterator[tuple[str, paramiko.PKey]]:
        named = {blob for file in self._settings.key_files if (blob := _public(file))}
        agent = self._agent()
        if self._settings.only_key_files:
            agent = [key for key in agent if key.asbytes() in named]
        agent.sort(key=lambda key: key.asbytes() not in named)
        held = {key.asbytes() for key in agent}
        for key in agent:
            yield f"agent key {key.comment or key.get_name()}", key
        for file in self._settings.key_files:
            if not file.is_file() or _public(file) in held:
                continue
            loaded = self._load(file)
            if loaded is not None and loaded.asbytes() not in held:
                yield str(file), loaded

    def _load(self, file: Path) -> paramiko.PKey | None:
        try:
            return paramiko.PKey.from_path(file)
        except (OSError, ValueError, TypeError, paramiko.SSHException) as error:
            # Of an encrypted key cryptography says TypeError or ValueError, by format.
            text = str(error).lower()
            locked = isinstance(error, paramiko.PasswordRequiredException) or "password" in text
            why = (
                "needs its passphrase: add it to an agent"
                if locked
                else f"not usable: {str(error).partition('. ')[0]}"
            )
            self.tried.append(f"{file}: {why}")
            return None

    def _agent(self) -> list[AgentKey]:
        if self._settings.agent is None:
            return []
        try:
            return list(paramiko.Agent().get_keys())
        except (OSError, paramiko.SSHException) as error:
            self.tried.append(f"agent: {error}")
            return []


def _public(file: Path) -> bytes | None:
    """The public half beside a key file, as the bytes keys are compared by."""
    try:
        words = file.with_name(file.name + ".pub").read_text(encoding="utf-8").split()
        return base64.b64decode(words[1], validate=True)
    except (OSError, ValueError, IndexError):
        return None
