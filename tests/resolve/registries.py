"""Real registries on loopback: Debian's docker-registry, with TLS, htpasswd or tokens as asked.

In: a folder. Out: a running registry that tests push images into over its own API.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import bcrypt
import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from tests.lab.packages import install_missing

from .web_server import Reply, Request

USER, PASSWORD = "robot$llm+pull", "correct horse"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Authority:
    """A certificate authority, which also signed a server certificate for 127.0.0.1 and localhost."""

    ca: Path
    server_cert: Path
    server_key: Path
    key: rsa.RSAPrivateKey

    @property
    def pem(self) -> str:
        return self.ca.read_text()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_cert, self.server_key)
        return context

    def token(self, issuer: str, service: str, repository: str) -> str:
        """A signed registry token that allows pulling `repository`."""
        der = x509.load_pem_x509_certificate(self.ca.read_bytes()).public_bytes(serialization.Encoding.DER)
        header = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        now = int(time.time())
        access = [{"type": "repository", "name": repository, "actions": ["pull"]}]
        claims = {
            "iss": issuer,
            "sub": USER,
            "aud": service,
            "exp": now + 300,
            "nbf": now - 60,
            "iat": now - 60,
        }
        signed = ".".join(
            _b64(json.dumps(part).encode()) for part in (header, claims | {"jti": "1", "access": access})
        )
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_b64(signature)}"


def make_authority(folder: Path) -> Authority:
    """A fresh CA and server certificate as PEM files in `folder`."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, server_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)

    def build(name: str, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )

    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    )
    ca = (
        build("test CA", ca_key)
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .add_extension(usage, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    server = (
        build("127.0.0.1", server_key)
        .add_extension(issuer, critical=False)
        .add_extension(names, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    paths = [folder / name for name in ("ca.pem", "server.pem", "server.key")]
    paths[0].write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(server.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.TraditionalOpenSSL
    private = server_key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    paths[2].write_bytes(private)
    return Authority(paths[0], paths[1], paths[2], ca_key)


@dataclass
class RunningRegistry:
    """A registry at `address` (127.0.0.1:port)."""

    address: str
    process: subprocess.Popen[bytes]
    secure: bool
    ca: str | None
    auth: tuple[str, str] | None
    headers: dict[str, str] = field(default_factory=dict)

    def push(
        self, repository: str, tag: str, platforms: Sequence[str] = ("linux/amd64",), *, index: bool = True
    ) -> str:
        """Push a small image; its layers' sizes are 1000 bytes a platform before. Gives the digest."""
        children = []
        for number, platform in enumerate(platforms, 1):
            os_, arch, *variant = platform.split("/")
            spoken = {"os": os_, "architecture": arch} | ({"variant": variant[0]} if variant else {})
            config = self._blob(repository, json.dumps(spoken | {"rootfs": {}, "tag": tag}).encode())
            layer = self._blob(
                repository, f"{repository}:{tag}:{platform}".encode().ljust(1000 * number, b".")
            )
            body = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer, layer]}
            digest = self._manifest(repository, f"{tag}-{arch}" if index else tag, MANIFEST, body)
            size = len(json.dumps(body).encode())
            children.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": spoken})
        if not index:
            return digest
        attestation = children[0] | {"platform": {"os": "unknown", "architecture": "unknown"}}
        body = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*children, attestation]}
        return self._manifest(repository, tag, INDEX, body)

    def copy(self, repository: str, tag: str, target: RunningRegistry, target_repository: str) -> None:
        """The same content in another registry, as a mirror has it (single manifests only)."""
        body = self._ask("GET", f"{repository}/manifests/{tag}", headers={"Accept": MANIFEST}).content
        document = json.loads(body)
        for part in (document["config"], *document["layers"]):
            target._blob(target_repository, self._ask("GET", f"{repository}/blobs/{part['digest']}").content)
        path = f"{target_repository}/manifests/{tag}"
        target._ask("PUT", path, content=body, headers={"Content-Type": MANIFEST})

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _blob(self, repository: str, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        location = self._ask("POST", f"{repository}/blobs/uploads/").headers["Location"]
        self._ask("PUT", location + ("&" if "?" in location else "?") + f"digest={digest}", content=data)
        return {"mediaType": "application/octet-stream", "digest": digest, "size": len(data)}

    def _manifest(self, repository: str, tag: str, kind: str, body: dict[str, Any]) -> str:
        path = f"{repository}/manifests/{tag}"
        answer = self._ask("PUT", path, content=json.dumps(body).encode(), headers={"Content-Type": kind})
        return answer.headers["Docker-Content-Digest"]

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        scheme = "https" if self.secure else "http"
        url = path if "://" in path else f"{scheme}://{self.address}/v2/{path}"
        verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=self.ca) if self.ca else False
        answer = httpx.request(method, url, verify=verify, auth=self.auth, trust_env=False, **options)
        assert answer.is_success, f"{method} {url}: {answer.status_code} {answer.text}"
        return answer


def free_port() -> int:
    """A port nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_registry(
    folder: Path,
    *,
    tls: Authority | None = None,
    login: bool = False,
    token: tuple[str, Path] | None = None,
    storage: Path | None = None,
) -> RunningRegistry:
    """Start docker-registry. `token`: (realm, certificate of the issuer) for token logins."""
    install_missing()  # Debian's docker-registry among them
    program = shutil.which("docker-registry")
    assert program is not None
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    http: dict[str, Any] = {"addr": f"127.0.0.1:{port}"}
    if tls:
        http["tls"] = {"certificate": str(tls.server_cert), "key": str(tls.server_key)}
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(storage or folder / "data")}},
        "http": http,
    }
    if login:
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    if token:
        realm, bundle = token
        service = {"realm": realm, "service": "test", "issuer": "test", "rootcertbundle": str(bundle)}
        config["auth"] = {"token": service}
    (folder / "config.yml").write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert process.poll() is None, (folder / "log").read_text()
        time.sleep(0.05)
    return RunningRegistry(
        address=f"127.0.0.1:{port}",
        process=process,
        secure=tls is not None,
        ca=str(tls.ca) if tls else None,
        auth=(USER, PASSWORD) if login else None,
    )


def token_service(authority: Authority) -> Any:
    """A login service's answer: a token for whoever gives the right password; others get 401."""
    expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    def answer(request: Request) -> Reply:
        if request.headers.get("Authorization") != f"Basic {expected}":
            return Reply(401, b"{}")
        query = parse_qs(urlsplit(request.path).query)
        repository = query["scope"][0].split(":")[1]
        return Reply(
            200, json.dumps({"token": authority.token("test", query["service"][0], repository)}).encode()
        )

    return answer


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
