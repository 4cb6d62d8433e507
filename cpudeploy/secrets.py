"""Secret references in, values out, never shown. Used by the rooms that do I/O; never by pure ones."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import shlex
import signal
import subprocess
import threading
from pathlib import Path

from .errors import SecretError
from .types.base import SecretRef

_SHORTEST = 4
"""Characters of the shortest value that can be kept out of what is told: shorter ones stand in any text."""

_COMMAND_S = 60
"""Seconds for a command to print a secret: time to unlock a password store, no more."""


def mark(value: str, salt: bytes | None = None) -> str:
    """What may be kept of a secret to tell later whether it changed: `scrypt:<salt>:<hash>`, base64."""
    salt = os.urandom(16) if salt is None else salt
    hashed = hashlib.scrypt(value.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    return f"scrypt:{base64.b64encode(salt).decode()}:{base64.b64encode(hashed).decode()}"


def same(value: str, marked: str) -> bool:
    """Whether `marked` is a mark of `value`. What is not a mark at all is a mark of nothing."""
    kind, _, rest = marked.partition(":")
    try:
        salt = base64.b64decode(rest.partition(":")[0], validate=True)
    except binascii.Error:
        return False
    return kind == "scrypt" and hmac.compare_digest(mark(value, salt).encode(), marked.encode())


class Secret:
    """A value that does not show itself: str, repr and format give `[secret]`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for the one place that must send it."""
        return self._value

    def __repr__(self) -> str:
        return "[secret]"

    __str__ = __repr__


def login(token: Secret, cookie: str = "") -> dict[str, str]:
    """The headers that carry a token, in the cookie of that name, too, where there is one."""
    headers = {"Authorization": f"Bearer {token.reveal()}"}
    return headers | {"Cookie": f"{cookie}={token.reveal()}"} if cookie else headers


class Secrets:
    """Resolves references once and remembers them, also those that can't be had: a command is not waited for
    again. `base` is the manifest's folder."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._known: dict[SecretRef, Secret] = {}
        self._failed: dict[SecretRef, SecretError] = {}
        self._asking = threading.Lock()

    def get(self, ref: SecretRef) -> Secret:
        """The secret behind `ref`. Raises SecretError naming the reference, never a value."""
        with self._asking:  # several hosts want the same one at once; a command is run once
            if ref not in self._known:
                if ref in self._failed:
                    raise SecretError(self._failed[ref].what, do=self._failed[ref].do)
                try:
                    self._known[ref] = Secret(self._read(ref))
                except SecretError as error:
                    self._failed[ref] = error
                    raise
            return self._known[ref]

    def api_key(self, ref: SecretRef) -> Secret:
        """A secret that clients will send in a header and engines read from a file, one a line.

        Raises SecretError for what can't be sent, or would be read as something else.
        """
        secret = self._sendable(ref, "API key")
        if secret.reveal().startswith("#"):
            raise SecretError(
                f"the API key {ref} begins with #: engines take such a line of a key file for a comment",
                do="let it begin with another character",
            )
        return secret

    def token(self, ref: SecretRef) -> Secret:
        """A secret that a site of models is sent in a header. Raises SecretError for what can't be sent."""
        return self._sendable(ref, "token")

    def _sendable(self, ref: SecretRef, what: str) -> Secret:
        secret = self.get(ref)
        value = secret.reveal()
        if not (value.isascii() and value.isprintable()) or value != value.strip():
            raise SecretError(
                f"the {what} {ref} can't be sent in a header",
                do="use printable ASCII characters, without spaces at the ends",
            )
        if len(value) < _SHORTEST:
            raise SecretError(
                f"the {what} {ref} is too short to be a secret, or to be kept out of logs",
                do=f"use {_SHORTEST} characters or more; `openssl rand -hex 16` makes a good one",
            )
        return secret

    def remember(self, ref: SecretRef, secret: Secret) -> None:
        """A value that was asked for on the terminal, under a reference of its own."""
        self._known[ref] = secret

    def values(self) -> tuple[str, ...]:
        """All values resolved so far, for redacting text that comes back from hosts."""
        # Copied first: other hosts' threads go on resolving.
        return tuple(secret.reveal() for secret in tuple(self._known.values()))

    def redact(self, text: str) -> str:
        """`text` with every resolved value replaced, but those too short for it."""
        # Longest first: of one that begins with another's value nothing may stay.
        for value in sorted(self.values(), key=len, reverse=True):
            if len(value) >= _SHORTEST:
                text = text.replace(value, "[secret]")
        return text

    def _read(self, ref: SecretRef) -> str:
        if ref.kind == "from_env":
            value = os.environ.get(ref.name)
            if value is None:
                raise SecretError(
                    f"environment variable {ref.name} is not set", do=f"export {ref.name} before running"
                )
        elif ref.kind == "from_file":
            try:
                path = self._base / Path(ref.name).expanduser()
            except RuntimeError:
                raise SecretError(
                    f"the secret file {ref.name} lies in a home that nobody has", do="write its whole path"
                ) from None
            try:
                value = path.read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "not UTF-8 text"
                raise SecretError(
                    f"cannot read secret file {path}: {reason}", do="create it, mode 0600"
                ) from None
        elif ref.kind == "from_command":
            value = self._ask_command(ref.name)
        else:
            raise SecretError(
                f"secrets of kind {ref.kind} can't be resolved yet",
                do="use from_env, from_file or from_command",
            )
        if not value or "\n" in value or "\0" in value:
            raise SecretError(f"the secret {ref} must be one non-empty line")
        return value

    def _ask_command(self, line: str) -> str:
        """What a command prints, run in the manifest's folder by no shell.

        What it says when it fails is not shown: that may hold anything.
        """
        try:
            words = shlex.split(line)
            process = subprocess.Popen(
                words,
                cwd=self._base,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, IndexError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no command line"
            raise SecretError(
                f"`from_command`: {''.join(line.split(maxsplit=1)[:1])} can't be run: {reason}",
                do="install it, or correct the command",
            ) from None
        name = words[0]
        try:
            output, _ = process.communicate(timeout=_COMMAND_S)
        except subprocess.TimeoutExpired:
            raise SecretError(
                f"the command {name} gave no secret within {_COMMAND_S} s",
                do="see that it asks nothing: it has no terminal",
            ) from None
        finally:
            # Also what it started: that may hold the other end of its output.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if process.returncode != 0:
            raise SecretError(
                f"`from_command`: {name} ended with exit code {process.returncode}",
                do="run the whole command by hand in the manifest's folder to see why",
            )
        try:
            return output.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise SecretError(f"what the command {name} prints is not UTF-8 text") from None
