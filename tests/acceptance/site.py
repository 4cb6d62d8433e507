"""A manifest folder for tests on real hosts: written from data, used through the real command line."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import testinfra
import yaml

from tests.lab import llama
from tests.lab.demo import write_ssh_config
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.ready import Command
from tests.schemas import check_document

TINY = "cpudeploy/tiny-random-llama-GGUF"
TINY_FILE = "tiny-random-llama-F32.gguf"


@dataclass
class Site:
    """One deployment's folder. `manifest` may be changed; `write` puts it on disk."""

    lab: Lab
    folder: Path
    manifest: dict[str, Any]
    bare_plan: str = ""
    """The plan of its hosts before anything was done to them, where a test keeps it."""

    @property
    def api_key(self) -> str:
        return (self.folder / "api-key").read_text()

    def write(self) -> Path:
        path = self.folder / "inventory.yaml"
        path.write_text(yaml.safe_dump(self.manifest, sort_keys=False))
        return path

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> Command:
        """A cpudeploy command in this folder, not waited for."""
        self.write()
        # Wide, so that no sentence a test looks for is wrapped: a test runner may set a narrow one.
        return Command(arguments, self.folder, {**os.environ, "COLUMNS": "240", **(env or {})})

    def run(self, *arguments: str, code: int = 0, timeout: float = 600) -> str:
        """A cpudeploy command that must end with `code`; what it printed."""
        out, err = self._run(*arguments, code=code, timeout=timeout)
        return out + err

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a command that must end with `code` printed as JSON; beside it, it may tell how it goes on."""
        return json.loads(self._run(*arguments, "--format", "json", code=code, timeout=600)[0])

    def _run(self, *arguments: str, code: int, timeout: float) -> tuple[str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        assert process.returncode == code, (
            f"cpudeploy {' '.join(arguments)} → {process.returncode}\n{out}\n{err}"
        )
        assert "Traceback" not in err, err
        return out, err

    def plan(self) -> dict[str, Any]:
        """The plan as data."""
        plan: dict[str, Any] = self.json("plan")
        check_document("plan", plan)
        return plan

    def settled(self) -> bool:
        """Whether nothing is left to do."""
        return "no changes" in self.run("plan", "--detailed-exitcode", code=0)

    def on(self, host: str) -> testinfra.host.Host:
        """The host through testinfra, as root over SSH, to assert its state."""
        address = self.lab.hosts[host].address
        return testinfra.get_host(f"ssh://root@{address}", ssh_config=str(self.lab.state / "ssh_config"))

    def inspect(self, host: str, container: str) -> dict[str, Any]:
        return json.loads(self.on(host).check_output("docker inspect %s", container))[0]

    def ask(self, host: str, port: int, key: str | None = None) -> str:
        """The models that a server on the host's loopback lists, or why not."""
        return self.http(host, port, "GET /v1/models", key=key)

    def ask_lab(self, host: str, port: int) -> str:
        """The models that a server on the host's address in the lab lists, or nothing while none answers."""
        connection = http.client.HTTPConnection(self.lab.hosts[host].address, port, timeout=10)
        try:
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {self.api_key}"})
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()

    def http(self, host: str, port: int, request: str, *, key: str | None = None, body: str = "") -> str:
        """A request to a port of the host's loopback, through its sshd: the host needs no program for it.
        The answer's body."""
        lines = [f"{request} HTTP/1.0", "Host: localhost", f"Content-Length: {len(body.encode())}"]
        lines += ["Content-Type: application/json"] + ([f"Authorization: Bearer {key}"] if key else [])
        tunnel = ["ssh", "-F", str(self.lab.state / "ssh_config"), "-W", f"127.0.0.1:{port}"]
        # Its input stays open until the answer is there: servers give up on who has closed already.
        with subprocess.Popen(
            ["timeout", "60", *tunnel, f"root@{self.lab.hosts[host].address}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin and process.stdout
            process.stdin.write("\r\n".join([*lines, "Connection: close", "", body]))
            process.stdin.flush()
            return process.stdout.read().partition("\n\n")[2]


@contextmanager
def nobody_to_ask(site: Site, *hosts: str) -> Iterator[None]:
    """Neither Hub nor registry for this site: its manifest names places where nobody is, and its hosts can't reach
    those of the lab. The lab's own go on, for whoever else is at work."""
    lab, mirrors = site.lab, site.manifest["mirrors"]
    places = [place.rpartition("//")[2] for place in (lab.registry.tls, lab.registry.plain, lab.hub.url)]
    rules = [("OUTPUT", "-p", "tcp", "-d", *_port_of(place), "-j", "REJECT") for place in places]
    nowhere = "http://127.0.0.1:9"
    site.manifest["mirrors"] = {
        "images": [{"match": "ghcr.io/", "try": [f"{nowhere}/"]}],
        "huggingface": nowhere,
    }
    for host in hosts:
        for rule in rules:
            site.on(host).check_output("iptables -I " + " ".join(rule))
    try:
        yield
    finally:
        site.manifest["mirrors"] = mirrors
        for host in hosts:
            for rule in rules:
                site.on(host).check_output("iptables -D " + " ".join(rule))


def _port_of(place: str) -> tuple[str, ...]:
    address, _, port = place.rpartition(":")
    return address, "--dport", port


def bare_hosts(lab: Lab, *specs: HostSpec) -> None:
    """Hosts that nothing was ever done to, also where an earlier run left some of their names."""
    for spec in specs:
        if spec.name in lab.hosts:
            lab.remove(spec.name)
    lab.add(*specs)


def make_site(lab: Lab, folder: Path, *hosts: str, name: str = "rag") -> Site:
    """A deployment of the tiny model on `hosts`, through mirrors, with an API key."""
    write_ssh_config(lab)
    (folder / "api-key").write_text(f"planted-{secrets.token_urlsafe(18)}")
    (folder / "registry-password").write_text(lab.registry.password)
    (folder / "sudo-password").write_text(lab.sudo_password)
    entries: dict[str, Any] = {}
    for host in hosts:
        entries[host] = {"address": lab.hosts[host].address}
        if lab.hosts[host].spec.sudo == "password":
            entries[host]["sudo"] = {"password": {"from_file": "sudo-password"}}
    manifest = {
        "version": 1,
        "name": name,
        "defaults": {"ssh": {"user": "ops", "config": str(lab.state / "ssh_config")}},
        "mirrors": {
            "images": [
                {"match": "ghcr.io/", "try": [f"{lab.registry.tls}/", f"http://{lab.registry.plain}/"]}
            ],
            "huggingface": lab.hub.url,
        },
        "registries": {
            lab.registry.tls: {
                "username": lab.registry.user,
                "password": {"from_file": "registry-password"},
                "ca": str(lab.registry.ca),
            }
        },
        "hosts": entries,
        "backends": {"llama": {"playbook": "llama-cpp", "image": llama.IMAGE}},
        "models": {
            "tiny": {
                "source": {"huggingface": TINY, "files": [TINY_FILE]},
                "backend": "llama",
                "on": list(hosts),
                "port": 8100,
                "context": 512,
                "parallel": 1,
                "api_key": {"from_file": "api-key"},
            }
        },
    }
    return Site(lab=lab, folder=folder, manifest=manifest)
