"""Who we are to a registry: logins and certificates by scope, and the challenge that asks for them.

In: the manifest's `registries` and a registry's 401. Out: an Authorization header. A login is only
ever sent to the registry it is written for and to that registry's own login service: never to a
stranger a mirror points at, never over plain HTTP unless the registry itself was declared so.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..secrets import Secret, Secrets
from ..types.deployment import Registry
from ..types.references import Reference
from .references import covers

_PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')


@dataclass(frozen=True)
class Login:
    """A username and password for `scope` (registry, or registry/project)."""

    scope: str
    username: str
    password: Secret

    def header(self) -> str:
        """The value of a Basic Authorization header."""
        pair = f"{self.username}:{self.password.reveal()}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


@dataclass(frozen=True)
class Challenge:
    """What a 401 asks for. `realm` is the login service's address, for Bearer only."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


class Access:
    """The manifest's logins and certificates, looked up by repository; the longest scope wins."""

    def __init__(self, registries: Iterable[Registry], secrets: Secrets) -> None:
        self._registries = sorted(registries, key=lambda entry: len(entry.scope), reverse=True)
        self._secrets = secrets

    def login(self, name: str) -> Login | None:
        """The login for `registry/repository`, or for a bare registry's address. Raises SecretError."""
        for entry in self._registries:
            if entry.username is not None and entry.password is not None and covers(entry.scope, name):
                return Login(entry.scope, entry.username, self._secrets.get(entry.password))
        return None

    def ca(self, name: str) -> str | None:
        """PEM text of the authority that signs for `registry/repository`."""
        return next((entry.ca for entry in self._registries if entry.ca and covers(entry.scope, name)), None)


def read_challenge(headers: Sequence[str]) -> Challenge | None:
    """The challenge of WWW-Authenticate headers that we can answer; Bearer before Basic."""
    found: dict[str, Challenge] = {}
    for header in headers:
        scheme, _, rest = header.strip().partition(" ")
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(rest)}
        found[scheme.lower()] = Challenge(
            scheme=scheme.lower(),
            realm=parameters.get("realm", ""),
            service=parameters.get("service", ""),
            scope=parameters.get("scope", ""),
        )
    return found.get("bearer") or found.get("basic")


def may_send(reference: Reference, realm: str, *, insecure: bool) -> bool:
    """Whether a login of `reference`'s registry may go to the login service at `realm`.

    The same host, or a relative of it: below it, or beside it in its domain (Docker Hub, GitLab and
    the large clouds keep their login services there). Others need a `registries` entry of their own.
    """
    address = urlsplit(realm)
    service, registry = address.hostname or "", urlsplit(f"//{reference.api_host}").hostname or ""
    if address.scheme != "https" and not (insecure and address.scheme == "http" and service == registry):
        return False
    if service == registry:
        return True
    if _is_address(registry) or _is_address(service):
        return False
    _, _, domain = registry.partition(".")
    return service.endswith(f".{registry}") or (
        "." in domain and (service == domain or service.endswith(f".{domain}"))
    )


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
