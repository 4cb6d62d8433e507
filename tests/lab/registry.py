"""Two image registries of a lab: one with TLS and a password, one that speaks plain HTTP.

In: the lab's network and addresses. Out: running registries at fixed addresses, their certificate authority
and password in the state folder, and `push` from the lab's engine. Everything is made per lab.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.lab import engine, images
from tests.lab.shell import LabError, run, wait_until

Kind = Literal["tls", "plain"]
KINDS: tuple[Kind, ...] = ("tls", "plain")
USER = "robot$llm+pull"
HOSTNAME = "registry.lab.test"  # what lab hosts may call the one with TLS
PORT = 5000

CONFIG = """\
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: /var/lib/registry}, delete: {enabled: true}}
http: {addr: ":5000"%s}
%s"""
TLS = ", tls: {certificate: /etc/registry/server.pem, key: /etc/registry/server.key}"
AUTH = "auth: {htpasswd: {realm: lab, path: /etc/registry/htpasswd}}\n"


@dataclass(frozen=True)
class Registries:
    """The registries of one lab."""

    lab: str
    network: str
    addresses: dict[Kind, str]  # without port
    state: Path

    @property
    def tls(self) -> str:
        """address:port of the registry with TLS and a password."""
        return f"{self.addresses['tls']}:{PORT}"

    @property
    def plain(self) -> str:
        """address:port of the registry that speaks plain HTTP and asks for nothing."""
        return f"{self.addresses['plain']}:{PORT}"

    @property
    def user(self) -> str:
        """The user name for the one with TLS."""
        return USER

    @property
    def password_file(self) -> Path:
        """Holds the password, without a newline."""
        return self.state / "registry-password"

    @property
    def password(self) -> str:
        """The password for the one with TLS."""
        return self.password_file.read_text()

    @property
    def ca(self) -> Path:
        """The certificate authority's certificate, PEM."""
        return self.state / "ca.pem"

    def push(self, image: str, repository: str, to: Kind = "plain") -> str:
        """Push an image of the lab's engine as `repository:tag`; the digest that it has in the registry."""
        target = f"{self.tls if to == 'tls' else self.plain}/{repository}"
        engine.docker("tag", image, target)
        try:
            output = engine.docker("push", target, config=self.state / "docker")
        finally:
            engine.docker("rmi", target, check=False)
        found = re.search(r"digest: (sha256:[0-9a-f]{64})", output)
        if found is None:
            raise LabError(f"push of {target} told no digest:\n{output}")
        return found[1]

    def storage(self, kind: Kind) -> Path:
        """The folder where it keeps its images, on this machine."""
        form = '{{range .Mounts}}{{if eq .Destination "/var/lib/registry"}}{{.Source}}{{end}}{{end}}'
        return Path(engine.docker("inspect", "--format", form, self.container(kind)).strip())

    def container(self, kind: Kind) -> str:
        """The container's name, for faults: `engine.docker("stop", …)`."""
        return f"{self.lab}-registry-{kind}"

    def start(self, labels: Sequence[str]) -> None:
        """Start what isn't running, and wait for it."""
        self._make_secrets()
        marks = [word for label in labels for word in ("--label", label)]
        for kind in KINDS:
            name = self.container(kind)
            if engine.docker("ps", "--quiet", "--filter", f"name=^{name}$").strip():
                continue
            engine.docker("rm", "--force", "--volumes", name, check=False)
            folder = self.state / "registry" / kind
            (folder / "config.yml").write_text(CONFIG % ((TLS, AUTH) if kind == "tls" else ("", "")))
            place = ["--network", self.network, "--ip", self.addresses[kind]]
            alias = ["--network-alias", HOSTNAME] if kind == "tls" else []
            volumes = ["--volume", f"{folder}:/etc/registry:ro", "--volume", "/var/lib/registry"]
            command = ["/etc/registry/config.yml"]
            words = [*marks, *place, *alias, *volumes, images.REGISTRY_IMAGE, *command]
            engine.docker("run", "--detach", "--name", name, *words)
        for kind in KINDS:
            wait_until(f"the {kind} registry", lambda kind=kind: self._answers(kind), 20)  # type: ignore[misc]

    def _answers(self, kind: Kind) -> bool:
        url = f"https://{self.tls}/v2/" if kind == "tls" else f"http://{self.plain}/v2/"
        context = ssl.create_default_context(cafile=str(self.ca)) if kind == "tls" else None
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            direct.open(url, timeout=2).close()
        except urllib.error.HTTPError as error:
            return error.code == 401
        except OSError:
            return False
        return True

    def _make_secrets(self) -> None:
        for kind in KINDS:
            (self.state / "registry" / kind).mkdir(parents=True, exist_ok=True)
        folder = self.state / "registry" / "tls"
        if not self.password_file.exists():
            _private(self.password_file, secrets.token_urlsafe(18))
        if not (folder / "htpasswd").exists():
            done = run(["htpasswd", "-niB", USER], stdin=self.password + "\n")
            _private(folder / "htpasswd", done.stdout)
        if not (folder / "server.pem").exists():
            _make_certificates(self.state / "ca-key.pem", self.ca, folder, self.addresses["tls"])
        (self.state / "docker").mkdir(exist_ok=True)
        token = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        _private(self.state / "docker" / "config.json", json.dumps({"auths": {self.tls: {"auth": token}}}))


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _make_certificates(ca_key: Path, ca: Path, folder: Path, address: str) -> None:
    """A certificate authority, and a server certificate of it for the address and the host name."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/O=cpudeploy lab/CN=cpudeploy lab CA"]
    authority = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    run(["openssl", "req", "-x509", "-days", "30", *key, *subject, *authority, "-keyout", ca_key, "-out", ca])
    request, subject = folder / "server.csr", ["-subj", f"/CN={HOSTNAME}"]
    run(["openssl", "req", *key, *subject, "-keyout", folder / "server.key", "-out", request])
    extensions = folder / "server.ext"
    extensions.write_text(f"subjectAltName=IP:{address},DNS:{HOSTNAME}\nextendedKeyUsage=serverAuth\n")
    sign = ["-req", "-days", "30", "-CAcreateserial", "-CA", str(ca), "-CAkey", str(ca_key)]
    sign += ["-extfile", str(extensions), "-in", str(request)]
    run(["openssl", "x509", *sign, "-out", folder / "server.pem.new"])
    (folder / "server.pem.new").rename(folder / "server.pem")
