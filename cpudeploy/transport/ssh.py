"""Opening an SSH connection: settings → a paramiko transport inside fabric's Connection, or one clear error.

fabric carries connecting and gateways; the host-key policy, the keys and the errors are ours. Never
prompts, never accepts an unknown key unasked, never shows a traceback.
"""

from __future__ import annotations

import contextlib
import logging
import random
import shlex
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fabric
import paramiko

from ..errors import ConnectError
from .hostkeys import check, is_known, known
from .login import Keys
from .settings import Settings
from .starts import Starts

# paramiko tells each failure to its log with a traceback; without a handler Python prints them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

BANNER_TIMEOUT_S = 20
AUTH_TIMEOUT_S = 30
CHANNEL_TIMEOUT_S = 30
KEEPALIVE_S = 10
SILENT_LINK_S = 30
"""A link that acknowledges nothing for so long is dead; less than any wait for an engine's answer."""
_ATTEMPTS = 3


Judge = Callable[[Settings, str, bytes], None]
"""Told each hop's key (kind, key); raises what ends the connection."""


def open_ssh(settings: Settings, starts: Starts) -> tuple[fabric.Connection, tuple[str, ...]]:
    """A connected fabric connection and notes.

    Raises ConnectError saying which it is: name, refused, timeout, host key, login, or broken.
    """
    notes: list[str] = []

    def judge(hop: Settings, kind: str, key: bytes) -> None:
        if note := check(hop, kind, key):
            notes.append(note)

    connection = _connected(settings, judge, starts)
    _guard_link(connection)
    return connection, (*_all_notes(settings), *notes)


def _connected(settings: Settings, judge: Judge, starts: Starts) -> fabric.Connection:
    """Connect through all hops. Resets at connect are tried again, with jitter."""
    for attempt in range(1, _ATTEMPTS + 1):
        connection, hops = _prepare(settings, judge)
        try:
            with starts.turn(settings):
                begun = time.monotonic()
                connection.open()
            return connection
        except (ConnectError, _Shown):
            close_ssh(connection)
            raise
        except Exception as error:  # paramiko raises whatever its sockets and parsers raise
            link, hop, keys = _first_closed(connection, hops)
            hung_up = _hung_up_at_login(error, link)
            # Where a key was refused before, it has seen too many of them: others would be counted as well.
            lost = hung_up and keys.sent < 2
            close_ssh(connection)
            quick = time.monotonic() - begun < BANNER_TIMEOUT_S
            if attempt < _ATTEMPTS and quick and (lost or _is_reset(error)):
                # A full MaxStartups, a firewall's rate limit: everybody must not come back at once.
                time.sleep(attempt * (0.3 + random.random()))  # noqa: S311
                continue
            if lost:
                raise ConnectError(
                    f"{hop.address} port {hop.port} broke off in the middle of the login",
                    where=hop.name,
                    do="see the host's sshd log",
                ) from None
            raise _explain(error, hop, keys, quick=quick, hung_up=hung_up) from None
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class NewKey:
    """A key that known_hosts has nothing about, and the hop that showed it."""

    hop: Settings
    kind: str
    key: bytes


class _Shown(Exception):
    """The way to a host ends at a key: one that nobody knows, or (None) the host's own, known."""

    def __init__(self, new: NewKey | None) -> None:
        super().__init__("a host key was shown")
        self.new = new


def unknown_key(settings: Settings, starts: Starts) -> NewKey | None:
    """The first hop towards the host whose key is not known; None: all are. Logs in to jumps only.

    Raises ConnectError for a key that changed, and for what keeps the hosts from being reached.
    """

    def judge(hop: Settings, kind: str, key: bytes) -> None:
        if not is_known(hop, kind, key):
            raise _Shown(NewKey(hop, kind, key))
        if hop is settings:
            raise _Shown(None)

    try:
        close_ssh(_connected(settings, judge, starts))
    except _Shown as shown:
        return shown.new
    raise AssertionError("a connection without a host key")


def close_ssh(connection: fabric.Connection) -> None:
    """Close it and the gateways below it."""
    for link in _chain(connection):
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            link.client.close()


def _prepare(settings: Settings, judge: Judge) -> tuple[fabric.Connection, list[tuple[Settings, Keys]]]:
    """The fabric connection of `settings`, gateways first, unopened; with each hop's keys."""
    hops: list[tuple[Settings, Keys]] = []
    gateway: fabric.Connection | str | None = None
    if settings.jump is not None:
        gateway, hops = _prepare(settings.jump, judge)
    elif settings.proxy_command is not None:
        # OpenSSH gives it to a shell, fabric expands tokens once more and splits it into words.
        gateway = "sh -c " + shlex.quote("exec " + settings.proxy_command).replace("%", "%%")
    keys = Keys(settings)
    connection = fabric.Connection(
        settings.address,
        user=settings.user,
        port=settings.port,
        gateway=gateway,
        config=fabric.Config(ssh_config=paramiko.SSHConfig(), lazy=True),
        connect_timeout=settings.connect_timeout_s,
        connect_kwargs={
            "auth_strategy": keys,
            "banner_timeout": BANNER_TIMEOUT_S,
            "auth_timeout": AUTH_TIMEOUT_S,
            "channel_timeout": CHANNEL_TIMEOUT_S,
            "transport_factory": _factory(settings),
        },
    )
    connection.client.set_missing_host_key_policy(_Policy(settings, judge))
    return connection, [*hops, (settings, keys)]


def _factory(settings: Settings) -> Callable[..., paramiko.Transport]:
    """Transports that ask for the kinds of host key we know first, so that a known host is recognised."""
    kinds = [line.kind for line in known(settings.known_name, settings.known_hosts) if not line.marker]
    if "ssh-rsa" in kinds:
        kinds += ["rsa-sha2-512", "rsa-sha2-256"]

    def make(sock: Any, **options: Any) -> paramiko.Transport:
        transport = paramiko.Transport(sock, **options)
        security = transport.get_security_options()
        security.key_types = sorted(security.key_types, key=lambda kind: kind not in kinds)
        return transport

    return make


class _Policy(paramiko.MissingHostKeyPolicy):
    """paramiko is given no known hosts, so it asks about every key."""

    def __init__(self, settings: Settings, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        self._judge(self._settings, key.get_name(), key.asbytes())


def _chain(connection: fabric.Connection | str | None) -> list[fabric.Connection]:
    chain: list[fabric.Connection] = []
    while isinstance(connection, fabric.Connection):
        chain.append(connection)
        connection = connection.gateway
    return chain


def _first_closed(
    connection: fabric.Connection, hops: list[tuple[Settings, Keys]]
) -> tuple[fabric.Connection, Settings, Keys]:
    """The hop that failed: gateways open in order."""
    ways = [(link, *hop) for hop, link in zip(hops, reversed(_chain(connection)), strict=True)]
    return next((way for way in ways if not way[0].is_connected), ways[-1])


def _hung_up_at_login(error: Exception, link: fabric.Connection) -> bool:
    """Whether a login failed because the connection ended, and not with an answer."""
    if not isinstance(error, paramiko.AuthenticationException):
        return False
    transport = link.client.get_transport()
    return transport is not None and not transport.is_active()


def _guard_link(connection: fabric.Connection) -> None:
    """Keepalives on every hop, and an end to silence on the real socket."""
    for link in _chain(connection):
        link.transport.set_keepalive(KEEPALIVE_S)
        sock = link.transport.sock
        if isinstance(sock, socket.socket) and hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_LINK_S * 1000)


def _all_notes(settings: Settings) -> tuple[str, ...]:
    below = () if settings.jump is None else _all_notes(settings.jump)
    return (*below, *settings.notes)


def _is_reset(error: Exception) -> bool:
    """Cut off before or while the protocol began, as sshd does when too many come at once."""
    if isinstance(error, ConnectionResetError | BrokenPipeError | EOFError):
        return True
    return type(error) is paramiko.SSHException


def _explain(error: Exception, settings: Settings, keys: Keys, *, quick: bool, hung_up: bool) -> ConnectError:
    where, user = settings.name, settings.user
    place = f"{settings.address} port {settings.port}"
    if keys.tried:
        return ConnectError(
            f"login as {user} failed; tried: " + "; ".join(keys.tried),
            where=where,
            do=f"the host hung up after {keys.sent} keys (MaxAuthTries): set IdentitiesOnly, and the right "
            "IdentityFile"
            if hung_up
            else f"put a public key into {user}'s authorized_keys there, or name the right user or key "
            "(IdentityFile)",
        )
    if isinstance(error, paramiko.AuthenticationException):
        return ConnectError(
            f"login as {user} failed: there is no key to try",
            where=where,
            do="start an agent with your key (ssh-add), or name one with IdentityFile",
        )
    if isinstance(error, paramiko.ChannelException) and settings.jump is not None:
        return ConnectError(f"{settings.jump.name} can't reach {place}: {error.text}", where=where)
    if isinstance(error, socket.gaierror):
        return ConnectError(f"cannot resolve {settings.address}", where=where, do="correct `address`, or DNS")
    if isinstance(error, TimeoutError):
        return ConnectError(
            f"{place} timed out after {settings.connect_timeout_s} s",
            where=where,
            do="check address, route and firewall",
        )
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    if isinstance(error, ConnectionRefusedError):
        return ConnectError(
            f"{place} refused the connection", where=where, do="start sshd there, or correct `port`"
        )
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    if isinstance(error, OSError) and not isinstance(error, ConnectionResetError | BrokenPipeError):
        return ConnectError(f"{place} can't be reached: {reason}", where=where, do="check address and route")
    if not quick:
        return ConnectError(
            f"{place} took the connection and then kept silent for {BANNER_TIMEOUT_S} s",
            where=where,
            do="the host hangs or is overloaded, or that is no sshd",
        )
    if settings.proxy_command is not None:
        return ConnectError(
            f"the ProxyCommand to {place} broke off before SSH was set up",
            where=where,
            do="run it by hand, as the ssh configuration has it, to see what it says",
        )
    return ConnectError(
        f"{place} broke off before SSH was set up: {reason}",
        where=where,
        do="see the host's sshd log; too many connections at once (MaxStartups) look like this",
    )
