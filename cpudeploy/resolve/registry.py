"""One repository of one registry, asked over HTTP: manifests, their platforms and sizes.

In: a candidate place with its login and certificate. Out: checked manifests. Never pulls layers,
never writes, never sends a login anywhere but where `access` allows. Failures come in two kinds:
`Unreachable` (a host may still get there) and `Refused` (asking again changes nothing).
"""

from __future__ import annotations

import time
from urllib.parse import urlencode

import httpx
import msgspec

from ..errors import RegistryError
from ..types.references import DIGEST
from .access import Access, Challenge, may_send, read_challenge
from .manifests import ACCEPT, Manifest, Platform, read_manifest, read_platform
from .references import Candidate
from .web import Reason, open_client, read_body, reason, trust

DEADLINE_S = 30.0
_TRIES = 3
_PAUSE_S = 0.2
_MANIFEST_LIMIT = 4 << 20
_CONFIG_LIMIT = 8 << 20


class Unreachable(RegistryError):
    """The registry did not answer: network, TLS, an error of its own, or too many requests."""


class Refused(RegistryError):
    """The registry answered: it has no such image, or none for us."""


class RegistryClient:
    """Questions to one place. A context manager; `DEADLINE_S` bounds everything asked through it.

    Every error is a RegistryError whose `where` is the place and whose `what` is the reason alone.
    """

    def __init__(self, candidate: Candidate, access: Access) -> None:
        self._candidate = candidate
        self._access = access
        self._authorization: str | None = None
        self._deadline = time.monotonic() + DEADLINE_S
        reference = candidate.reference
        self.where = str(reference)
        self.login = access.login(reference.name)
        scheme = "http" if candidate.insecure else "https"
        self._base = f"{scheme}://{reference.api_host}/v2/{reference.repository}"
        try:
            self._client = open_client(trust(access.ca(reference.name)))
        except ValueError as error:
            raise RegistryError(
                f"its `ca` is {error}", where=self.where, do="give the PEM file of the CA"
            ) from None

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def manifest(self, wanted: str) -> Manifest:
        """The manifest behind a tag or digest. Raises Refused when there is none for us."""
        asked = wanted if DIGEST.fullmatch(wanted) else None
        response, body = self._ask(f"{self._base}/manifests/{wanted}", ACCEPT, _MANIFEST_LIMIT)
        told = response.headers.get("Docker-Content-Digest")
        return read_manifest(body, told=told, asked=asked, where=self.where)

    def has(self, digest: str) -> bool:
        """Whether the place has this very manifest."""
        try:
            self._ask(f"{self._base}/manifests/{digest}", ACCEPT, 0, method="HEAD")
        except Refused:
            return False
        return True

    def platforms(self, manifest: Manifest) -> tuple[Platform, ...]:
        """The platforms of an index, or the one a single manifest's config names."""
        if manifest.config is None:
            return manifest.platforms
        url = f"{self._base}/blobs/{manifest.config.digest}"
        _, body = self._ask(url, "*/*", _CONFIG_LIMIT)
        return (read_platform(body, digest=manifest.config.digest, where=self.where),)

    def size(self, manifest: Manifest, platform: Platform) -> int:
        """Bytes of compressed layers an engine on `platform` pulls."""
        if manifest.config is not None:
            return manifest.size
        return self.manifest(manifest.child(platform).digest).size

    def _ask(self, url: str, accept: str, limit: int, *, method: str = "GET") -> tuple[httpx.Response, bytes]:
        response, body = self._send(method, url, accept, limit, self._authorization)
        if response.status_code == 401 and self._authorization is None:
            self._authorization = self._authorize(
                read_challenge(response.headers.get_list("WWW-Authenticate"))
            )
            if self._authorization is not None:
                response, body = self._send(method, url, accept, limit, self._authorization)
        self._check(response)
        return response, body

    def _send(
        self, method: str, url: str, accept: str, limit: int, authorization: str | None
    ) -> tuple[httpx.Response, bytes]:
        """One request, repeated when a moment may help. Any status comes back except a lasting 5xx."""
        headers = {"Accept": accept} | ({"Authorization": authorization} if authorization else {})
        tries = 0
        while True:
            tries += 1
            try:
                with self._client.stream(method, url, headers=headers) as response:
                    body = read_body(response, limit, self._deadline) if response.is_success else b""
                if response.status_code < 500:
                    return response, body
                why = Reason(f"the registry failed with status {response.status_code}", passing=True)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                why = reason(error)
            if not why.passing or tries == _TRIES or time.monotonic() > self._deadline:
                raise Unreachable(why.text, where=self.where, do=why.do)
            time.sleep(_PAUSE_S * tries)

    def _authorize(self, challenge: Challenge | None) -> str | None:
        """The Authorization header that answers a challenge; None when we have no answer."""
        if challenge is None:
            return None
        if challenge.scheme == "basic":
            return self.login.header() if self.login else None
        return self._token(challenge)

    def _token(self, challenge: Challenge) -> str:
        reference = self._candidate.reference
        scope = challenge.scope or f"repository:{reference.repository}:pull"
        query = {"scope": scope} | ({"service": challenge.service} if challenge.service else {})
        joiner = "&" if "?" in challenge.realm else "?"
        url = f"{challenge.realm}{joiner}{urlencode(query)}"
        response, body = self._send("GET", url, "application/json", 1 << 20, self._realm_header(challenge))
        if response.status_code in (400, 401, 403, 404):
            raise self._denied()
        self._check(response)
        try:
            answer = msgspec.json.decode(body, type=dict[str, object])
        except msgspec.MsgspecError:
            answer = {}
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Refused("its login service answered without a token", where=self.where)
        return f"Bearer {token}"

    def _realm_header(self, challenge: Challenge) -> str | None:
        if may_send(self._candidate.reference, challenge.realm, insecure=self._candidate.insecure):
            return self.login.header() if self.login else None
        own = None
        if challenge.realm.startswith("https://"):
            own = self._access.login(httpx.URL(challenge.realm).netloc.decode())
        return own.header() if own else None

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        if status in (401, 403):
            raise self._denied()
        if status == 404:
            raise Refused("not found", where=self.where, do="check the name and the tag")
        if status == 429:
            wait = response.headers.get("Retry-After", "")
            raise Unreachable(
                "too many requests" + (f"; it asks to wait {wait} s" if wait.isdigit() else ""),
                where=self.where,
                do="wait, log in under `registries`, or add a mirror",
            )
        raise Refused(f"unexpected answer {status}", where=self.where)

    def _denied(self) -> Refused:
        registry = self._candidate.reference.registry
        if self.login:
            return Refused(
                f"the login of {self.login.scope} is not accepted, or the image does not exist",
                where=self.where,
                do=f"check the login under `registries: {self.login.scope}` and the image's name",
            )
        return Refused(
            "not logged in, or the image does not exist",
            where=self.where,
            do=f"add a login for {registry} under `registries` if it is private; check the name and the tag",
        )
