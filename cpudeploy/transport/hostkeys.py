"""Is this the host we know? known_hosts files and a host's key → nothing, or an error that says why not.

Reads the files OpenSSH reads: plain and hashed names, wildcards, negation, `@revoked`. Writes only
with `accept-new` or when told to (`trust`), and then only a key for a name that had none. Never accepts a
changed key.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConnectError
from .settings import Settings


@dataclass(frozen=True)
class Known:
    """A line of a known_hosts file that speaks of our host."""

    file: Path
    line: int
    marker: str
    kind: str
    key: bytes


def fingerprint(key: bytes) -> str:
    """As `ssh-keygen -l` shows it: `SHA256:…`."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def known(name: str, files: Iterable[Path]) -> tuple[Known, ...]:
    """All lines for `name` (`host` or `[host]:port`). Files that can't be read know nothing."""
    found: list[Known] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            marker = words.pop(0) if words[0].startswith("@") else ""
            if len(words) < 3 or not _matches(name, words[0]):
                continue
            try:
                key = base64.b64decode(words[2], validate=True)
            except binascii.Error:
                continue
            found.append(Known(file, number, marker, words[1], key))
    return tuple(found)


def check(settings: Settings, kind: str, key: bytes) -> str | None:
    """Judge the key a host showed. None: known. A note: recorded under `accept-new`.

    Raises ConnectError for an unknown, changed or revoked key.
    """
    if is_known(settings, kind, key):
        return None
    shown = fingerprint(key)
    if settings.accept_new:
        return f"new host key {kind} {shown} recorded in {record(settings, kind, key)}"
    lines = known(settings.known_name, settings.known_hosts)
    certified = any(line.marker == "@cert-authority" for line in lines)
    raise ConnectError(
        f"its host key is unknown: {kind} {shown}"
        + (" (host certificates are not supported)" if certified else ""),
        where=settings.name,
        do="compare the fingerprint with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then "
        "record it with `cpudeploy trust`, or set `host_keys: accept-new`",
    )


def is_known(settings: Settings, kind: str, key: bytes) -> bool:
    """Whether known_hosts has just this key for the host. Raises ConnectError where it has another, or where
    this one is revoked."""
    lines = known(settings.known_name, settings.known_hosts)
    shown = fingerprint(key)
    for line in lines:
        if line.marker == "@revoked" and line.key == key:
            raise ConnectError(
                f"its host key {shown} is marked revoked in {line.file}:{line.line}",
                where=settings.name,
                do="do not connect before someone has given the host a new key",
            )
    plain = [line for line in lines if not line.marker]
    if any(line.key == key for line in plain):
        return True
    if not plain:
        return False
    line = next((line for line in plain if line.kind == kind), plain[0])
    raise ConnectError(
        f"THE HOST KEY CHANGED: {settings.known_name} shows {kind} {shown}, "
        f"{line.file}:{line.line} has {line.kind} {fingerprint(line.key)}. "
        "Someone may stand between you and the host, or it was installed anew",
        where=settings.name,
        do="ask whoever runs the host; only if the key is right: "
        f"ssh-keygen -f {line.file} -R '{settings.known_name}'",
    )


def record(settings: Settings, kind: str, key: bytes) -> Path:
    """Add a key to the file that ssh itself would write it to, the name hashed where ssh would."""
    file = settings.record_in
    if file is None:
        raise ConnectError(
            "there is no known_hosts file to record its key in",
            where=settings.name,
            do="set UserKnownHostsFile in the ssh configuration",
        )
    name = _hashed(settings.known_name) if settings.hash_names else settings.known_name
    line = f"{name} {kind} {base64.b64encode(key).decode()}\n".encode()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One write in append mode: several hosts may be recorded at once.
        handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            os.write(handle, line)
        finally:
            os.close(handle)
    except OSError as error:
        raise ConnectError(f"can't record its key in {file}: {error.strerror}", where=settings.name) from None
    return file


def _hashed(name: str) -> str:
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.lower().encode(), "sha1")
    return "|".join(("", "1", base64.b64encode(salt).decode(), base64.b64encode(digest).decode()))


def _matches(name: str, patterns: str) -> bool:
    if patterns.startswith("|1|"):
        return _hash_matches(name, patterns)
    matched = False
    for pattern in patterns.split(","):
        negated = pattern.startswith("!")
        # Only * and ? are special there; fnmatch would also read […], which names with ports have.
        literal = pattern.lstrip("!").lower().replace("[", "[[]")
        if fnmatch.fnmatchcase(name.lower(), literal):
            if negated:
                return False
            matched = True
    return matched


def _hash_matches(name: str, hashed: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in hashed.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.digest(salt, name.lower().encode(), "sha1"), digest)
